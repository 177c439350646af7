package bsjoin.jvm.planner;

import bsjoin.jvm.catalog.StoredScan;
import bsjoin.jvm.catalog.StoredTable;
import bsjoin.jvm.lookup.KeyFinder;
import bsjoin.jvm.spark.Function;
import bsjoin.jvm.spark.Scala;
import bsjoin.jvm.storage.Expected;
import bsjoin.jvm.storage.TableError;
import com.fasterxml.jackson.databind.JsonNode;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.ApplyFunctionExpression;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.Inner$;
import org.apache.spark.sql.catalyst.plans.JoinType;
import org.apache.spark.sql.catalyst.plans.LeftAnti$;
import org.apache.spark.sql.catalyst.plans.LeftOuter$;
import org.apache.spark.sql.catalyst.plans.LeftSemi$;
import org.apache.spark.sql.catalyst.plans.logical.Generate;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;

/**
 * What {@code bsjoin.join} calls: the rows of a table that match a row of the stream, by the keys and
 * the range condition of the call, as an array for {@code inline}. The planner answers it by {@link
 * LookupExec}, and makes no array.
 *
 * <p>A join it is not, although it means one. Spark's optimizer moves to the table's side of a join
 * what concerns its columns alone: filters with Python functions or subqueries, semi joins, limits.
 * There the index answers nothing any more.
 *
 * <p>Its arguments are the keys of the stream, and the values that it is searched by: a point, or the
 * ends of an interval. The last one is an error, so that Spark does not evaluate a call whose other
 * arguments are constants. Its specification has the table ({@code path}, {@code newest}, {@code
 * epoch}, {@code version}, {@code staleness}, {@code python}), its keys ({@code on}, and which of them
 * are {@code nulls_equal}) and range columns ({@code ranged}), {@code how} it is joined, the {@code columns} to bring and what they are in the result
 * ({@code fields}), the {@code search}, those of further ranges ({@code boxes}, of the columns {@code
 * boxed}), and the {@code label} of the join, if its figures are reported. If it brings aggregates of
 * the columns instead, it has these ({@code agg}: function, number of the column or null, whether a
 * sum wraps around) and what the columns are ({@code types}); an array of all rows is the function
 * {@code collect}. If it {@code marks} its rows, the last of the fields says whether there is a match.
 */
public final class Matches extends Function<ArrayData> {
  private final JsonNode node;
  private final StructType fields;

  public Matches(String spec, JsonNode node, DataType... given) {
    this(spec, node, (StructType) DataType.fromJson(node.path("fields").toString()), given);
  }

  private Matches(String spec, JsonNode node, StructType fields, DataType... given) {
    super(spec, node, DataTypes.createArrayType(result(node, fields), false), given);
    this.node = node;
    this.fields = fields;
  }

  /** What a row brings: in a left join without a match nulls, and that there is none. */
  private static StructType result(JsonNode node, StructType fields) {
    boolean mayMiss = node.path("how").asText().equals("left");
    StructType all = new StructType();
    for (StructField field : fields.fields()) {
      boolean isMark = node.path("marks").asBoolean() && all.length() == fields.length() - 1;
      boolean isNullable = !isMark && (mayMiss || field.nullable());
      all = all.add(new StructField(field.name(), field.dataType(), isNullable, field.metadata()));
    }
    return all;
  }

  @Override
  public String name() {
    return "bsjoin_matches";
  }

  /** The type of the array. The optimizer asks for it in the session that plans the query. */
  @Override
  public DataType resultType() {
    Planner.install(); // here, as a view may come from another session
    return super.resultType();
  }

  @Override
  public BoundFunction bind(StructType types) {
    return new Matches(description(), node, types(types));
  }

  @Override
  public ArrayData produceResult(InternalRow arguments) {
    throw unplanned();
  }

  static RuntimeException unplanned() {
    return TableError.of(
        "WorkerEnvironmentError",
        "this session has planned bsjoin.join without its index: set spark.bsjoin.runtime to python, "
            + "and report the plan");
  }

  /**
   * A call as a join that the index answers; null if the generator is another one.
   *
   * @param where the rest of its condition; null for none
   * @param condition what that is
   * @throws IllegalStateException the version has other keys, range columns or columns
   */
  static IndexJoin join(Generate generate, Where where, Expression condition) {
    Seq<Expression> array = ((Expression) generate.generator()).children();
    return !array.isEmpty()
            && array.head() instanceof ApplyFunctionExpression call
            && call.function() instanceof Matches matches
        ? matches.join(generate, Scala.list(call.children()), where, condition)
        : null;
  }

  private IndexJoin join(
      Generate generate, List<Expression> arguments, Where where, Expression condition) {
    StructType columns = new StructType();
    StructType read =
        node.has("agg") ? (StructType) DataType.fromJson(node.path("types").toString()) : fields;
    for (int i = 0; i < node.path("columns").size(); i++) {
      StructField field = read.fields()[i];
      String column = node.path("columns").path(i).asText();
      columns = columns.add(column, field.dataType(), field.nullable());
    }
    StoredTable table = StoredTable.planned(node);
    StoredScan scan = StoredScan.unchecked(table, columns);
    boolean marks = node.path("marks").asBoolean();
    IndexJoin join = IndexJoin.of(generate, type(where), scan, node.path("agg"), marks);
    String ranged = node.path("ranged").isMissingNode() ? "" : node.path("ranged").toString();
    new Expected(table.table.identity, node.path("on").toString(), ranged, columns)
        .check(join.manifest);
    int keys = node.path("on").size();
    for (int i = 0; i < keys; i++) {
      if (node.path("nulls_equal").path(i).asBoolean()) {
        join.nullSafe.add(i);
      }
    }
    if (!join.findBy(arguments.subList(0, keys))) {
      throw new IllegalStateException("a key is not compared with the table's: " + arguments);
    }
    List<Expression> probes = arguments.subList(keys, arguments.size() - 1);
    JsonNode label = node.get("label");
    join.label = label == null ? "" : label.toString();
    // Another version may have been built without them, or with others.
    boolean isBoxed = node.has("boxes") && node.path("boxed").toString().equals(join.manifest.boxes);
    Search search;
    if (probes.isEmpty()) {
      search =
          new Search(
              new KeyFinder(join.searched()), probes, join.residual, List.of(), List.of());
    } else if (isBoxed) {
      search = RangeLookup.boxes(join, node.path("search"), node.path("boxes"), probes);
    } else {
      JsonNode how = node.path("search");
      List<Expression> own = probes.subList(0, RangeLookup.columns(how));
      search = RangeLookup.of(join, how, own, node.has("agg"));
    }
    join.search = where == null ? search : search.with(condition, where.most);
    return join;
  }

  private JoinType type(Where where) {
    return switch (where == null ? node.path("how").asText() : where.how) {
      case "inner" -> Inner$.MODULE$;
      case "left" -> LeftOuter$.MODULE$;
      case "semi" -> LeftSemi$.MODULE$;
      default -> LeftAnti$.MODULE$;
    };
  }
}
