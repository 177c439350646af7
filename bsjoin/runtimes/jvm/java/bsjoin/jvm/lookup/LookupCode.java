package bsjoin.jvm.lookup;

import bsjoin.jvm.spark.Scala;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.function.Supplier;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprValue;
import org.apache.spark.sql.catalyst.expressions.codegen.FalseLiteral$;
import org.apache.spark.sql.catalyst.expressions.codegen.JavaCode;
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
  private final List<ExprCode> input; // the columns of the stream, then the found row
  private final String finder;
  private final String counts; // null: nothing is counted
  private final String found;

  /**
   * Code of a join.
   *
   * @param counts what counts; null for nothing
   * @param input the columns of the child
   */
  LookupCode(CodegenContext context, Lookup lookup, Counts counts, List<ExprCode> input) {
    this.context = context;
    this.lookup = lookup;
    found = context.freshName("found");
    this.input = new ArrayList<>(input);
    this.input.add(
        ExprCode.apply(
            FalseLiteral$.MODULE$, JavaCode.variable(found, DataTypes.LongType)));
    String open;
    if (counts == null) {
      this.counts = null;
      open = reference("finder", lookup.finder(), Finder.class) + ".open()";
    } else {
      String object = reference("counts", counts, Counts.class);
      this.counts = state(Counts.class, "counts", object + ".open()");
      open = this.counts + ".opened(" + reference("finder", lookup.finder(), Finder.class) + ")";
    }
    Class<?> type = lookup.finder().getClass();
    finder = state(type, "finder", "(" + type.getName() + ") " + open);
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

  /**
   * The code for a row.
   *
   * @param arguments see {@link LookupExec}
   * @param condition likewise
   * @param consume makes the code that a row of the result goes on in
   */
  String text(List<Expression> arguments, List<Expression> condition, Supplier<String> consume) {
    String search = search(codes(arguments));
    return search + (lookup.isSingle() ? single(condition, consume) : each(condition, consume));
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
    text.append("long " + found + " = " + lookup.ifNull() + "L;\n");
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
    return text.toString();
  }

  private static boolean isFalse(ExprValue isNull) {
    return isNull.toString().equals("false");
  }

  /** At most one row of the result. */
  private String single(List<Expression> condition, Supplier<String> consume) {
    StringBuilder text = new StringBuilder();
    if (!condition.isEmpty()) {
      String next = lookup.finder().isUnique() ? "-1L" : finder + ".next()";
      text.append("while (" + found + " >= 0L) {\n");
      text.append(unless(condition, found + " = " + next + ";\ncontinue;\n"));
      text.append("break;\n}\n");
    }
    text.append(count(found));
    switch (lookup.kind()) {
      case INNER:
      case SEMI:
        text.append("if (" + found + " >= 0L) {\n");
        break;
      case ANTI:
      case NULL_AWARE_ANTI:
        text.append("if (" + found + " < 0L) {\n");
        break;
      default:
        text.append("{\n");
    }
    return text + result() + consume.get() + "}\n";
  }

  /** A row of the result for each match. */
  private String each(List<Expression> condition, Supplier<String> consume) {
    boolean outer = lookup.kind() == JoinKind.OUTER;
    String any = context.freshName("any");
    String next = found + " = " + finder + ".next();\n";
    String following = next; // after one that is taken
    StringBuilder text = new StringBuilder();
    text.append("boolean " + any + " = false;\n");
    if (lookup.limit() < Integer.MAX_VALUE) {
      String taken = context.freshName("taken");
      text.append("int " + taken + " = 0;\n");
      String more = "++" + taken + " < " + lookup.limit();
      following = found + " = " + more + " ? " + finder + ".next() : -1L;\n";
    }
    text.append("while (" + found + " >= 0L" + (outer ? " || !" + any : "") + ") {\n");
    if (!condition.isEmpty()) {
      text.append((outer ? "if (" + found + " >= 0L) {\n" : "{\n"));
      text.append(unless(condition, next + "continue;\n") + "}\n");
    }
    if (!outer) {
      text.append(any + " = true;\n" + result() + consume.get() + following + "}\n");
      return text + count(any + " ? 0L : -1L");
    }
    // Before the last row of an outer join, the one with nulls, nothing has matched.
    text.append(any + " = " + found + " >= 0L;\n" + result() + consume.get());
    text.append("if (" + found + " < 0L) break;\n" + following + "}\n");
    return text + count(any + " ? 0L : -1L");
  }

  /** Leave this row if it does not fulfil the condition. */
  private String unless(List<Expression> condition, String leave) {
    StringBuilder text = new StringBuilder();
    for (Expression one : condition) {
      ExprCode code = codes(Collections.singletonList(one)).get(0);
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
