package bsjoin.jvm.planner;

import bsjoin.jvm.lookup.Aggregated;
import bsjoin.jvm.lookup.Collector;
import bsjoin.jvm.lookup.Columns;
import bsjoin.jvm.lookup.FoundRow;
import bsjoin.jvm.lookup.JoinKind;
import bsjoin.jvm.lookup.LookupExec;
import bsjoin.jvm.lookup.Read;
import bsjoin.jvm.lookup.RealTimeLookup;
import bsjoin.jvm.spark.OwnExpression;
import bsjoin.jvm.spark.Scala;
import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GreaterThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.If;
import org.apache.spark.sql.catalyst.expressions.KnownNullable;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.XxHash64;
import org.apache.spark.sql.catalyst.plans.ExistenceJoin;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Generate;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.execution.FilterExec;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;

/** Plans the joins that the index of a stored table answers; Spark's own strategies plan the rest. */
public final class JoinStrategy extends SparkStrategy {
  @Override
  public Seq<SparkPlan> apply(LogicalPlan plan) {
    SparkPlan found = plan(plan);
    return found == null ? Scala.seq() : Scala.seq(found);
  }

  /** A join, with the filters and the selection above it: columns that nobody uses are not read. */
  private SparkPlan plan(LogicalPlan plan) {
    if (!(plan instanceof Project selection)) {
      return plan(plan, null);
    }
    SparkPlan child = plan(selection.child(), selection.references());
    return child == null ? null : new ProjectExec(selection.projectList(), child);
  }

  /** A join, with the filters above it; null for any other plan. */
  private SparkPlan plan(LogicalPlan plan, AttributeSet used) {
    if (plan instanceof Filter filter) {
      List<Expression> rest = IndexJoin.conjuncts(filter.condition(), new ArrayList<>());
      for (Expression one : rest) {
        if (Where.of(one) != null) {
          rest.remove(one);
          return joined(one, rest, filter, used);
        }
      }
    }
    if (plan instanceof Filter filter && used != null) {
      SparkPlan child = plan(filter.child(), used.$plus$plus(filter.references()));
      return child == null ? null : new FilterExec(filter.condition(), child);
    }
    if (plan instanceof Generate call) {
      IndexJoin join = Matches.join(call, null, null);
      return join == null ? null : new Planned(join, used).plan(call);
    }
    if (!(plan instanceof Join || AsOfOfSpark.is(plan)) || !Planner.isOn()) {
      return null;
    }
    try {
      IndexJoin join = plan instanceof Join its ? IndexJoin.of(its) : AsOfOfSpark.of(plan);
      return join == null ? null : new Planned(join, used).plan();
    } catch (LinkageError e) {
      Linkage.failed(String.valueOf(e)); // Spark's own strategies plan it
      return null;
    }
  }

  /**
   * A call of bsjoin.join and its condition, which is in the filter, as one join. Between them there
   * may be selections. Null if there is no call: the condition's function then says so.
   *
   * @param call of the condition's function
   * @param rest of the filter, which Spark has inferred from others of the stream
   */
  private SparkPlan joined(
      Expression call, List<Expression> rest, Filter filter, AttributeSet above) {
    Expression where = call.children().head();
    LogicalPlan below = filter.child();
    AttributeSet used = above;
    for (Expression one : above == null ? List.<Expression>of() : rest) {
      used = used.$plus$plus(one.references());
    }
    List<Project> between = new ArrayList<>();
    while (below instanceof Project selection) {
      Map<ExprId, Expression> values = new HashMap<>();
      for (NamedExpression named : Scala.list(selection.projectList())) {
        if (named instanceof Alias alias) {
          values.put(alias.exprId(), alias.child());
        }
        if (!IndexJoin.isPlain((Expression) named)) {
          return null;
        }
      }
      where = IndexJoin.substituted(where, values);
      used = selection.references();
      between.add(0, selection);
      below = selection.child();
    }
    Where function = Where.of(call);
    IndexJoin join =
        below instanceof Generate matches ? Matches.join(matches, function, where) : null;
    if (join == null) {
      return null;
    }
    SparkPlan found = new Planned(join, used).plan((Generate) below);
    for (Project selection : between) {
      found = new ProjectExec(selection.projectList(), found);
    }
    for (Expression one : rest) {
      found = new FilterExec(one, found);
    }
    return found;
  }

  /** Whether a row is found. */
  private static Expression isThere() {
    return new GreaterThanOrEqual(new FoundRow(), new Literal(0L, DataTypes.LongType));
  }

  private final class Planned {
    private final IndexJoin join;
    private final Search search;
    private final List<Attribute> stream;
    private final List<Alias> computed = new ArrayList<>(); // of the stream, for the look-up
    private final Map<ExprId, Expression> reads = new HashMap<>(); // the scan's columns
    private Collector collector; // null unless the rows that match are one array
    private final AttributeSet used; // what is above uses no other columns; null: all

    Planned(IndexJoin join, AttributeSet used) {
      this.join = join;
      this.used = used;
      search = join.search;
      computed.addAll(search.computed());
      stream = Scala.list(join.stream.output());
      readColumns();
    }

    private void readColumns() {
      List<String> names = new ArrayList<>(join.columns.values());
      Columns columns = new Columns(join.stored, join.manifest, names);
      boolean mayMiss = join.kind == JoinKind.OUTER;
      StructField[] fields = join.scan.columns.fields();
      if (!join.aggregates.isEmpty()) {
        Columns stored =
            new Columns(join.stored, join.manifest, List.of(join.scan.columns.fieldNames()));
        join.brought.forEach(column -> reads.put(column.exprId(), aggregate(column, stored)));
      }
      if (join.match != null) {
        reads.put(join.match.exprId(), mayMiss ? isThere() : Literal.TrueLiteral());
      }
      join.columns.forEach(
          (id, name) -> {
            StructField field = fields[join.scan.columns.fieldIndex(name)];
            reads.put(
                id,
                new Read(
                    columns,
                    names.indexOf(name),
                    name,
                    field.dataType(),
                    join.mayHaveNulls(name),
                    mayMiss,
                    new FoundRow()));
          });
    }

    private Expression aggregate(Attribute column, Columns stored) {
      JsonNode aggregate = join.aggregates.get(column.exprId());
      if (aggregate.path(0).asText().equals("collect")) {
        StructType row = (StructType) ((ArrayType) column.dataType()).elementType();
        collector = new Collector(stored, row);
        return FoundRow.array(column.dataType());
      }
      FoundRow count = FoundRow.count();
      return aggregate.path(1).isNull()
          ? count
          : new Aggregated(
              stored, aggregate.path(0).asText(), aggregate.path(1).asInt(), column.dataType(),
              aggregate.path(2).asBoolean(), new FoundRow(), count);
    }

    /** The same as {@link #plan()}, with the columns that a call of bsjoin.join has to bring. */
    SparkPlan plan(Generate call) {
      SparkPlan found = plan();
      // A condition may need columns that its join does not bring: above it they are null.
      boolean lacks = join.kind.isFilter() && join.brought.stream().anyMatch(this::isUsed);
      if (!lacks && (used != null || call.unrequiredChildIndex().isEmpty())) {
        return found;
      }
      List<NamedExpression> columns = new ArrayList<>();
      for (Attribute column : Scala.list(call.output())) {
        boolean isNull = lacks && join.values.containsKey(column.exprId());
        Literal none = new Literal(null, column.dataType());
        columns.add(isNull ? OwnExpression.alias(none, column.name(), column.exprId()) : column);
      }
      return new ProjectExec(Scala.seq(columns), found);
    }

    private boolean isUsed(Attribute column) {
      return used == null || used.contains(column);
    }

    SparkPlan plan() {
      List<Expression> arguments = arguments();
      SparkPlan child = planLater(join.stream);
      if (join.demanded != null) {
        child = new FilterExec(join.demanded, child);
      }
      if (!computed.isEmpty() || join.demanded != null) { // behind which columns stay nullable
        List<NamedExpression> columns = new ArrayList<>(stream);
        columns.addAll(computed);
        child = new ProjectExec(Scala.seq(columns), child);
      }
      List<Expression> condition = new ArrayList<>();
      search.residual().forEach(one -> condition.add(IndexJoin.substituted(one, reads)));
      LookupExec planned =
          new LookupExec(
              join.lookup(search, stream.size(), collector),
              Scala.seq(arguments),
              Scala.seq(condition),
              Scala.seq(columns()),
              child);
      if (!join.scan.live) {
        return planned.resumed();
      }
      Slots.check(join);
      return RealTimeLookup.of(planned, child);
    }

    private List<Expression> arguments() {
      List<Expression> keys = new ArrayList<>();
      for (Expression key : join.keys) {
        keys.add(join.manifest.isByInteger() || isCheap(key) ? key : computed(key));
      }
      List<Expression> all = new ArrayList<>();
      if (join.manifest.isByInteger()) {
        all.add(keys.get(0));
        all.addAll(search.arguments());
        return all;
      }
      List<Expression> known = new ArrayList<>(); // none is null where a row may match
      List<Expression> hashed = new ArrayList<>(keys);
      if (join.manifest.hasNullKeys()) {
        hashed.add(NullKeys.which(join, keys, this::computed, known));
      }
      all.add(keys.isEmpty() ? new Literal(0L, DataTypes.LongType) : hash(hashed));
      for (int i = 0; i < join.manifest.compared.length; i++) {
        boolean isHashed = join.manifest.compared[i] instanceof LongType;
        Expression key = hashed.get(i);
        boolean isNull = join.nullSafe.contains(i) && key.nullable();
        all.add(isHashed ? hash(List.of(key)) : isNull ? NullKeys.stored(key) : key);
      }
      all.addAll(search.arguments());
      for (int i = 0; i < keys.size(); i++) {
        if (keys.get(i).nullable() && !join.nullSafe.contains(i)) {
          all.add(keys.get(i));
        }
      }
      all.addAll(known);
      return all;
    }

    private Expression hash(List<Expression> values) {
      return new XxHash64(Scala.seq(values));
    }

    /** Whether it costs nothing to evaluate an expression again. */
    private boolean isCheap(Expression key) {
      return key instanceof Attribute
          || key instanceof Cast cast
              && cast.child() instanceof Attribute
              && !(cast.child().dataType() instanceof StringType);
    }

    /** A key as a column of the child: it is used more than once. */
    private Expression computed(Expression key) {
      return Search.column(key, computed);
    }

    private List<NamedExpression> columns() {
      List<NamedExpression> found = new ArrayList<>();
      if (join.kind == JoinKind.EXISTENCE) {
        Attribute exists = ((ExistenceJoin) join.type).exists();
        found.add(OwnExpression.alias(isThere(), exists.name(), exists.exprId()));
      }
      if (join.kind.isFilter()) {
        return found;
      }
      for (Attribute column : join.brought) {
        if (!isUsed(column)) {
          continue;
        }
        Expression value = join.values.get(column.exprId());
        Expression own = IndexJoin.substituted(value, reads);
        if (join.kind == JoinKind.OUTER && !(value instanceof AttributeReference)) {
          own = new If(isThere(), own, new Literal(null, own.dataType()));
        }
        // What keeps rows from one micro-batch to the next counts on this.
        boolean isWider = column.nullable() && !own.nullable();
        own = isWider ? new KnownNullable(own) : own;
        found.add(OwnExpression.alias(own, column.name(), column.exprId()));
      }
      return found;
    }
  }
}
