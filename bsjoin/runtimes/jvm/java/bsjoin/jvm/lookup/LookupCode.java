package bsjoin.jvm.lookup;

import bsjoin.jvm.spark.Scala;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Supplier;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprValue;
import org.apache.spark.sql.catalyst.expressions.codegen.FalseLiteral$;
import org.apache.spark.sql.catalyst.expressions.codegen.JavaCode;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;

/**
 * The generated code of a {@link LookupExec} for one row of the stream.
 *
 * <p>The text has no version and no path, so that it is the same in each micro-batch, and compiled
 * once.
 */
public final class LookupCode {
  private final CodegenContext context;
  private final Lookup lookup;
  // The stream's columns, the found row, and the count or the array.
  private final List<ExprCode> input = new ArrayList<>();
  private final String finder;
  private final String collector; // null unless all rows that are found are one array
  private final String counts; // null: nothing is counted
  private final String found;
  private final String count; // how many rows are found; null unless they are one result
  private final String all; // the array of them; likewise
  private final String any; // whether a row of the stream has had a match
  private final String taken; // how many it has had; null if there is no limit
  private final boolean isResumed;

  LookupCode(CodegenContext context, Lookup lookup, Counts counts, boolean isResumed) {
    this.context = context;
    this.lookup = lookup;
    this.isResumed = isResumed;
    found = variable("long", "found");
    count = lookup.finder().isRun() ? variable("long", "count") : null;
    all = lookup.collector() != null ? variable("ArrayData", "all") : null;
    any = variable("boolean", "any");
    taken = lookup.limit() < Integer.MAX_VALUE ? variable("int", "taken") : null;
    String open;
    if (counts == null) {
      this.counts = null;
      open = reference("finder", lookup.finder(), Finder.class) + ".open()";
    } else {
      String object = reference("counts", counts, Counts.class);
      this.counts = state(Counts.class, "counts", object + ".open(partitionIndex)");
      open = this.counts + ".opened(" + reference("finder", lookup.finder(), Finder.class) + ")";
    }
    Class<?> type = lookup.finder().getClass();
    finder = state(type, "finder", "(" + type.getName() + ") " + open);
    collector =
        all == null ? null
            : state(
                Collector.class, "collector",
                reference("collector", lookup.collector(), Collector.class) + ".open()");
  }

  /** The name of a variable; of a field if it is needed when the code goes on later. */
  private String variable(String type, String name) {
    return isResumed
        ? context.addMutableState(type, name, Scala.function(state -> ""), true, true)
        : context.freshName(name);
  }

  private String set(String type, String name, Object value) {
    return (isResumed ? "" : type + " ") + name + " = " + value + ";\n";
  }

  /** Use these codes of the child's columns from now on. */
  LookupCode with(List<ExprCode> columns) {
    input.clear();
    input.addAll(columns);
    addInput(found, DataTypes.LongType);
    addInput(count, DataTypes.LongType);
    addInput(all, all == null ? null : lookup.collector().type());
    return this;
  }

  private void addInput(String variable, DataType type) {
    if (variable != null) {
      input.add(ExprCode.apply(FalseLiteral$.MODULE$, JavaCode.variable(variable, type)));
    }
  }

  List<ExprCode> columns() {
    return input;
  }

  private String reference(String name, Object object, Class<?> type) {
    return context.addReferenceObj(name, object, type.getName());
  }

  private String state(Class<?> type, String name, String value) {
    return context.addMutableState(
        type.getName(), name, Scala.function(state -> state + " = " + value + ";"), true, true);
  }

  /** The codes of expressions of the input; each is evaluated where its text is put. */
  List<ExprCode> codes(List<Expression> expressions) {
    context.INPUT_ROW_$eq(null);
    context.currentVars_$eq(Scala.seq(input));
    List<ExprCode> codes = new ArrayList<>();
    expressions.forEach(expression -> codes.add(expression.genCode(context)));
    return codes;
  }

  /** The code for a row; {@code consume} makes that which a row of the result goes on in. */
  String text(List<Expression> arguments, List<Expression> condition, Supplier<String> consume) {
    String search = search(codes(arguments));
    return search
        + (lookup.isSingle() ? single(condition, consume) : begin() + each(condition, consume, "", ""));
  }

  /**
   * The code for all rows of an iterator. A stage that stops at a row of the result goes on behind it
   * when it runs again, so that a row of the stream may have any number of matches.
   *
   * @param rows the iterator
   * @param row a field for the row that is joined
   * @param goesOn what must hold to take one, or its next match, with {@code &&} behind it; may be
   *     empty
   * @param stop stops the stage if it has a row of the result
   * @param searched makes the code of the columns that the arguments need, see {@link #with}
   * @param used the same of those that are needed then
   */
  String resumed(
      String rows, String row, String goesOn, String stop, List<Expression> arguments,
      List<Expression> condition, Supplier<String> searched, Supplier<String> used,
      Supplier<String> consume) {
    String isIn = variable("boolean", "isIn"); // among the matches of a row
    String search =
        row + " = (InternalRow) " + rows + ".next();\n" + searched.get()
            + search(codes(arguments)) + begin() + isIn + " = true;\n";
    String each = used.get() + each(condition, consume, goesOn, stop);
    return "while (" + goesOn + "(" + isIn + " || " + rows + ".hasNext())) {\n"
        + "if (!" + isIn + ") {\n" + search + "}\n"
        + each + isIn + " = false;\n" + stop + "}\n";
  }

  private String begin() {
    return set("boolean", any, false) + (taken == null ? "" : set("int", taken, 0));
  }

  /** Sets the variable with the first row that is found; negative if there is none. */
  private String search(List<ExprCode> arguments) {
    StringBuilder text = new StringBuilder();
    List<String> known = new ArrayList<>();
    for (ExprCode argument : arguments) {
      text.append(argument.code());
      if (!isFalse(argument.isNull())) {
        known.add("!" + argument.isNull());
      }
    }
    text.append(set("long", found, Finder.NONE + "L"));
    text.append(known.isEmpty() ? "{\n" : "if (" + String.join(" && ", known) + ") {\n");
    for (int i = 0; i < lookup.compared(); i++) {
      text.append(finder + ".key(" + i + ", " + arguments.get(1 + i).value() + ");\n");
    }
    List<String> values = new ArrayList<>();
    values.add(String.valueOf(arguments.get(0).value()));
    for (int i = 0; i < lookup.extra(); i++) {
      values.add(String.valueOf(arguments.get(1 + lookup.compared() + i).value()));
    }
    text.append(found + " = " + finder + ".first(" + String.join(", ", values) + ");\n}\n");
    if (count != null) {
      text.append(set("long", count, found + " < 0L ? 0L : " + finder + ".count()"));
    }
    if (all != null) {
      text.append(set("ArrayData", all, collector + ".all(" + finder + ", " + found + ")"));
    }
    return text.toString();
  }

  private static boolean isFalse(ExprValue isNull) {
    return isNull.toString().equals("false");
  }

  private String single(List<Expression> condition, Supplier<String> consume) {
    StringBuilder text = new StringBuilder();
    if (!condition.isEmpty()) {
      String next = lookup.finder().isUnique() ? "-1L" : finder + ".next()";
      text.append("while (" + found + " >= 0L) {\n");
      text.append(unless(condition, found + " = " + next + ";\ncontinue;\n"));
      text.append("break;\n}\n");
    }
    text.append(count(found));
    String meets =
        switch (lookup.kind()) {
          case INNER, SEMI -> "if (" + found + " >= 0L) ";
          case ANTI -> "if (" + found + " < 0L) ";
          default -> "";
        };
    return text + meets + "{\n" + result() + consume.get() + "}\n";
  }

  /** A row of the result for each match, between {@code goesOn} and {@code stop}. */
  private String each(
      List<Expression> condition, Supplier<String> consume, String goesOn, String stop) {
    boolean outer = lookup.kind() == JoinKind.OUTER;
    String next = found + " = " + finder + ".next();\n";
    String following = next; // after one that is taken
    StringBuilder text = new StringBuilder();
    if (taken != null) {
      String fewer = "++" + taken + " < " + lookup.limit();
      following = found + " = " + fewer + " ? " + finder + ".next() : -1L;\n";
    }
    String more = found + " >= 0L" + (outer ? " || !" + any : "");
    text.append("while (" + goesOn + "(" + more + ")) {\n");
    if (!condition.isEmpty()) {
      text.append((outer ? "if (" + found + " >= 0L) {\n" : "{\n"));
      text.append(unless(condition, next + "continue;\n") + "}\n");
    }
    if (!outer) {
      text.append(any + " = true;\n" + result() + consume.get() + following + stop + "}\n");
      return text + count(any + " ? 0L : -1L");
    }
    // Before the last row of an outer join, the one with nulls, nothing has matched.
    text.append(any + " = " + found + " >= 0L;\n" + result() + consume.get());
    text.append("if (" + found + " < 0L) break;\n" + following + stop + "}\n");
    return text + count(any + " ? 0L : -1L");
  }

  private String unless(List<Expression> condition, String leave) {
    StringBuilder text = new StringBuilder();
    for (Expression one : condition) {
      ExprCode code = codes(List.of(one)).get(0);
      String isNull = isFalse(code.isNull()) ? "" : code.isNull() + " || ";
      text.append(code.code());
      text.append("if (" + isNull + "!" + code.value() + ") {\n" + leave + "}\n");
    }
    return text.toString();
  }

  private String count(String value) {
    return counts == null ? "" : counts + ".row(" + value + ");\n";
  }

  private String result() {
    return counts == null ? "" : counts + ".result();\n";
  }
}
