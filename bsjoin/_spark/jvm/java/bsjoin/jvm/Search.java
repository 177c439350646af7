package bsjoin.jvm;

import java.util.Collections;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Expression;

/** How the rows of a table that match a row of the stream are found. */
final class Search {
  /** What finds them. */
  final Finder finder;

  /** What its {@code first} gets after the search value: expressions of the stream's columns. */
  final List<Expression> arguments;

  /** What it does not answer, of the stream's and the table's columns; checked for each row. */
  final List<Expression> residual;

  /** What the range index answers, for people. */
  final List<Expression> answered;

  Search(Finder finder, List<Expression> arguments, List<Expression> residual) {
    this(finder, arguments, residual, Collections.emptyList());
  }

  Search(
      Finder finder, List<Expression> arguments, List<Expression> residual,
      List<Expression> answered) {
    this.finder = finder;
    this.arguments = arguments;
    this.residual = residual;
    this.answered = answered;
  }
}
