package bsjoin.jvm.lookup;

import bsjoin.jvm.spark.OwnExpression;
import bsjoin.jvm.spark.OwnPlan;
import bsjoin.jvm.spark.Scala;
import bsjoin.jvm.spark.SessionSettings;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.function.UnaryOperator;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.codegen.CodeGenerator;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.execution.CoalesceExec;
import org.apache.spark.sql.execution.CodegenSupport;
import org.apache.spark.sql.execution.ColumnarToRowExec;
import org.apache.spark.sql.execution.FilterExec;
import org.apache.spark.sql.execution.InputAdapter;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.WholeStageCodegenExec;
import org.apache.spark.sql.execution.adaptive.AQEShuffleReadExec;
import org.apache.spark.sql.execution.adaptive.QueryStageExec;
import org.apache.spark.sql.execution.columnar.InMemoryTableScanExec;
import org.apache.spark.sql.execution.datasources.v2.MicroBatchScanExec;
import org.apache.spark.sql.execution.exchange.ReusedExchangeExec;
import org.apache.spark.sql.execution.exchange.ShuffleExchangeLike;
import org.apache.spark.sql.execution.metric.SQLMetric;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.reflect.ClassTag$;

/**
 * Joins the rows of the stream, its child, with a stored table: each row's matches are found by the
 * table's index, and their columns are read in place.
 *
 * <p>In Spark's generated code it is a part of the stage that the stream's rows pass through, like
 * the joins before and behind it; a column is read where it is first used.
 */
public final class LookupExec extends OwnPlan implements CodegenSupport {
  private static final int MOST = 1 << 12; // rows of one row that generated code keeps at once
  private static final long CACHED = 1 << 20; // bytes of an index that a core's caches keep

  private final Lookup lookup;
  private final Seq<Expression> arguments;
  private final Seq<Expression> condition;
  private final Seq<NamedExpression> columns;
  private Seq<Attribute> output; // rules ask for it often, and each join for that of the one below
  private CodegenSupport parent;
  private Counts counts;
  private long made; // 0: not asked for yet; each join asks for that of the one below, more than once

  /**
   * A join.
   *
   * @param lookup what it does
   * @param arguments of the stream's columns: the search value, the keys to compare, the finder's
   *     further arguments, and what else must not be null for a match
   * @param condition what a pair of rows must fulfil, of the stream's columns and {@link FoundRow}
   * @param columns that the table's side brings, of {@link FoundRow}
   * @param child the stream
   */
  public LookupExec(
      Lookup lookup, Seq<Expression> arguments, Seq<Expression> condition,
      Seq<NamedExpression> columns, SparkPlan child) {
    super(child, lookup, arguments, condition, columns);
    this.lookup = lookup;
    this.arguments = arguments;
    this.condition = condition;
    this.columns = columns;
  }

  /** The same, in a stage of its own if a row may have more matches than generated code keeps. */
  public LookupExec resumed() {
    boolean isWide = !lookup.isSingle() && most() > MOST;
    return isWide
        ? new LookupExec(lookup, arguments, condition, columns, new StageEnd(child))
        : this;
  }

  /** Whether its stage begins with it, and goes on among the matches of a row. */
  private boolean isResumed() {
    return child instanceof StageEnd
        || child instanceof InputAdapter && child.children().head() instanceof StageEnd;
  }

  private long most() {
    return Math.min(lookup.finder().most(), lookup.limit());
  }

  // The plan.

  @Override
  public Seq<Attribute> output() {
    if (output == null) {
      List<Attribute> stream = Scala.list(child.output()).subList(0, lookup.kept());
      List<Attribute> table = new ArrayList<>();
      Scala.list(columns).forEach(column -> table.add(column.toAttribute()));
      output = Scala.seq(ordered(stream, table));
    }
    return output;
  }

  private <T> List<T> ordered(List<T> stream, List<T> table) {
    List<T> all = new ArrayList<>(lookup.tableIsRight() ? stream : table);
    all.addAll(lookup.tableIsRight() ? table : stream);
    return all;
  }

  @Override
  public scala.collection.immutable.Map<String, SQLMetric> metrics() {
    return counts() == null ? Scala.map(Map.of()) : Scala.map(counts.metrics());
  }

  @Override
  public void doPrepare() {
    if (counts() != null) {
      counts.postVersion(sparkContext(), lookup.finder().number());
      Figures.add(sparkContext(), lookup, counts);
    }
  }

  private synchronized Counts counts() {
    boolean isWanted =
        lookup.label() != null || SessionSettings.isOn(conf(), "spark.bsjoin.metrics");
    if (counts == null && isWanted) {
      counts = new Counts(sparkContext(), lookup.finder().follows());
    }
    return counts;
  }

  @Override
  public String nodeName() {
    return "BsjoinLookup";
  }

  @Override
  public String simpleString(int maxFields) {
    return nodeName() + " " + lookup.description();
  }

  @Override
  public String verboseStringWithOperatorId() {
    return formattedNodeName() + "\n" + simpleString(conf().maxToStringFields()) + "\n";
  }

  @Override
  public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> children) {
    return new LookupExec(lookup, arguments, condition, columns, children.head());
  }

  // Without generated code for the stage.

  @Override
  public RDD<InternalRow> doExecute() {
    return child
        .execute()
        .mapPartitionsWithIndex(rows(), true, ClassTag$.MODULE$.apply(InternalRow.class));
  }

  /** What makes the results of a partition's rows. */
  LookupRows rows() {
    Seq<Expression> output = null;
    if (!values().isEmpty() || child.output().size() > lookup.kept()) {
      List<Expression> stream = new ArrayList<>(Scala.list(child.output()).subList(0, lookup.kept()));
      output = bound(ordered(stream, values()));
    }
    return new LookupRows(
        lookup, counts(), bound(Scala.list(arguments)), bound(Scala.list(condition)), output);
  }

  /** The columns of the table's side, of the found row. */
  private List<Expression> values() {
    return Scala.list(columns).stream().map(column -> ((Alias) column).child()).toList();
  }

  /** Expressions of the child's columns, and of what is found, see {@link FoundRow}, behind them. */
  private Seq<Expression> bound(List<Expression> expressions) {
    Map<ExprId, BoundReference> input = new HashMap<>();
    int place = 0;
    for (Attribute column : Scala.list(child.output())) { // which may have one column twice
      input.put(
          column.exprId(), new BoundReference(place++, column.dataType(), column.nullable()));
    }
    int found = place;
    UnaryOperator<Expression> rule =
        one ->
            one instanceof FoundRow row
                ? new BoundReference(found + row.place, row.dataType(), false)
                : one instanceof AttributeReference column
                    ? Objects.requireNonNull(input.get(column.exprId()))
                    : null;
    return Scala.seq(
        expressions.stream().map(one -> OwnExpression.replaced(one, rule)).toList());
  }

  // In generated code.

  @Override
  public boolean supportCodegen() {
    return lookup.isSingle() || isResumed() || made() <= MOST;
  }

  /** How many rows its stage may make of one row with its matches, if it is a part of the stage. */
  private long made() {
    if (made == 0) {
      made = isResumed() ? 1 : Math.min(most(), MOST + 1) * kept(child);
    }
    return made;
  }

  /** How many rows the look-ups of a stage may make of one row: all are kept until it is done. */
  private static long kept(SparkPlan plan) {
    if (!(plan instanceof CodegenSupport stage) || !stage.supportCodegen()) {
      return 1; // another stage
    }
    return plan instanceof LookupExec join && !join.lookup.isSingle()
        ? join.made()
        : Scala.list(plan.children()).stream().mapToLong(LookupExec::kept).max().orElse(1);
  }

  @Override
  public boolean needCopyResult() {
    return !lookup.isSingle() && !isResumed() || ((CodegenSupport) child).needCopyResult();
  }

  @Override
  public CodegenSupport parent() {
    return parent;
  }

  @Override
  public void parent_$eq(CodegenSupport parent) {
    this.parent = parent;
  }

  @Override
  public Seq<RDD<InternalRow>> inputRDDs() {
    List<LookupExec> lookups = new ArrayList<>();
    SparkPlan first = this;
    while (first instanceof FilterExec
        || first instanceof ProjectExec
        || first instanceof LookupExec) {
      if (first instanceof LookupExec join) {
        lookups.add(join);
      }
      first = first.children().head();
    }
    boolean takesBatches = first instanceof ColumnarToRowExec;
    SparkPlan source = first instanceof InputAdapter ? first.children().head() : first;
    boolean hasBatches = takesBatches || hasNumbers(source);
    List<KeysAhead> joins = new ArrayList<>();
    if (takesBatches || first instanceof InputAdapter && isKept(source)) {
      for (LookupExec one : lookups) {
        one.addKeysAhead(first.output(), takesBatches, joins);
      }
    }
    if (joins.isEmpty()) {
      return ((CodegenSupport) first).inputRDDs();
    }
    RDD<?> input =
        hasBatches && !takesBatches
            ? source.executeColumnar()
            : ((CodegenSupport) first).inputRDDs().head();
    return Scala.seq(InputAhead.of(input, joins, hasBatches, takesBatches));
  }

  /** Whether a plan has batches of numbers: of Spark's cache stages take rows all the same. */
  private static boolean hasNumbers(SparkPlan plan) {
    return plan.supportsColumnar()
        && Scala.list(plan.output()).stream()
            .allMatch(column -> CodeGenerator.isPrimitiveType(column.dataType()));
  }

  /** Whether rows of a plan may be taken before they are used: see {@link InputAhead}. */
  private static boolean isKept(SparkPlan plan) {
    if (plan instanceof CoalesceExec
        || plan instanceof StageEnd
        || plan instanceof WholeStageCodegenExec
        || plan instanceof ColumnarToRowExec
        || plan instanceof InputAdapter) {
      return isKept(plan.children().head());
    }
    return plan instanceof InMemoryTableScanExec
        || plan instanceof ShuffleExchangeLike
        || plan instanceof ReusedExchangeExec
        || plan instanceof QueryStageExec
        || plan instanceof AQEShuffleReadExec
        || plan instanceof MicroBatchScanExec;
  }

  /** Find the keys of the stage's input ahead of its rows, if they are one of its columns. */
  private void addKeysAhead(Seq<Attribute> input, boolean takesBatches, List<KeysAhead> joins) {
    boolean pays = takesBatches || lookup.indexBytes() > CACHED; // else rows are made or copied
    List<Expression> values = new ArrayList<>(Scala.list(condition));
    values.addAll(values());
    KeysAhead found =
        pays ? KeysAhead.of(lookup, Scala.list(arguments), values, Scala.list(input)) : null;
    if (found != null) {
      joins.add(found);
    }
  }

  @Override
  public String doProduce(CodegenContext context) {
    if (!isResumed()) {
      return ((CodegenSupport) child).produce(context, this);
    }
    String rows =
        context.addMutableState(
            "scala.collection.Iterator", "input",
            Scala.function(state -> state + " = inputs[0];"), true, true);
    String row =
        context.addMutableState("InternalRow", "row", Scala.function(state -> ""), true, true);
    StringBuilder goesOn = new StringBuilder();
    Scala.list(limitNotReachedChecks()).forEach(check -> goesOn.append(check).append(" && "));
    LookupCode code = new LookupCode(context, lookup, counts(), true);
    AttributeSet used = parent.usedInputs().$plus$plus(references(condition));
    return code.resumed(
        rows, row, goesOn.toString(), shouldStopCheckCode() + "\n",
        Scala.list(bound(Scala.list(arguments))),
        Scala.list(bound(Scala.list(condition))),
        () -> read(context, row, references(arguments), code),
        () -> read(context, row, used, code),
        () -> consumed(context, code));
  }

  private static AttributeSet references(Seq<Expression> expressions) {
    return AttributeSet.fromAttributeSets(
        Scala.seq(Scala.list(expressions).stream().map(Expression::references).toList()));
  }

  private String read(CodegenContext context, String row, AttributeSet used, LookupCode code) {
    context.INPUT_ROW_$eq(row);
    context.currentVars_$eq(null);
    List<ExprCode> read = new ArrayList<>();
    for (Attribute column : Scala.list(child.output())) {
      BoundReference place =
          new BoundReference(read.size(), column.dataType(), column.nullable());
      read.add(place.genCode(context));
    }
    code.with(read);
    return evaluateRequiredVariables(child.output(), Scala.seq(read), used);
  }

  @Override
  public String doConsume(CodegenContext context, Seq<ExprCode> input, ExprCode row) {
    LookupCode code = new LookupCode(context, lookup, counts(), false).with(Scala.list(input));
    return code.text(
        Scala.list(bound(Scala.list(arguments))),
        Scala.list(bound(Scala.list(condition))),
        () -> consumed(context, code));
  }

  /** The code of what is above, for a row of the result. */
  private String consumed(CodegenContext context, LookupCode code) {
    List<ExprCode> table = code.codes(Scala.list(bound(values())));
    List<ExprCode> stream = code.columns().subList(0, lookup.kept());
    return consume(context, Scala.seq(ordered(stream, table)), null);
  }
}
