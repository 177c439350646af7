package bsjoin.jvm.planner;

import bsjoin.jvm.catalog.StoredScan;
import bsjoin.jvm.lookup.BoxFinder;
import bsjoin.jvm.lookup.Collector;
import bsjoin.jvm.lookup.Finder;
import bsjoin.jvm.lookup.JoinKind;
import bsjoin.jvm.lookup.KeyFinder;
import bsjoin.jvm.lookup.Lookup;
import bsjoin.jvm.spark.OwnExpression;
import bsjoin.jvm.spark.Scala;
import bsjoin.jvm.storage.ColumnType;
import bsjoin.jvm.storage.Dimension;
import bsjoin.jvm.storage.KeyTypes;
import bsjoin.jvm.storage.LiveVersion;
import bsjoin.jvm.storage.Manifest;
import bsjoin.jvm.storage.StoredVersion;
import bsjoin.jvm.storage.TableIdentity;
import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.BloomFilterMightContain;
import org.apache.spark.sql.catalyst.expressions.EqualNullSafe;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.plans.JoinType;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Generate;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.util.package$;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.types.StructField;

/**
 * An optimized join that the index of a stored table answers: all key columns of the table are
 * equal to expressions of the other side, and nothing but selections and filters is above the table.
 * What else the join or the table's side demands of a pair of rows is its {@link #residual}.
 */
public final class IndexJoin {
  final JoinType type;
  final boolean tableIsRight;
  final StoredScan scan;
  final LogicalPlan stream;
  final Manifest manifest; // of the version that is joined; if it follows others, of the first one
  final boolean follows; // the table's versions, in real-time mode
  final StoredVersion stored; // the same, for the tasks

  /** The columns that the table's scan reads, by their name in the table. */
  final Map<ExprId, String> columns = new LinkedHashMap<>(); // the order is that of the scan

  /** What it brings of all rows that match, instead of their columns: see {@link Matches}. */
  final Map<ExprId, JsonNode> aggregates = new HashMap<>();

  /** The column that says whether there is a match; null if it brings none. */
  Attribute match;

  /** The columns of the table's side, as expressions of the scan's. */
  final Map<ExprId, Expression> values = new HashMap<>();

  /** The sides of the equalities that are the stream's, in the order of the table's keys. */
  final List<Expression> given = new ArrayList<>();

  /** The same as the index has them, see {@link KeyTypes}. */
  final List<Expression> keys = new ArrayList<>();

  /** The numbers of the keys in which null equals null. */
  final Set<Integer> nullSafe = new HashSet<>();

  /** The other conditions on a pair of rows, of the stream's and the scan's columns. */
  final List<Expression> residual = new ArrayList<>();

  /** See {@link Lookup#label}. */
  String label;

  /** The columns of the table's side. */
  final List<Attribute> brought;

  /** What a row of the stream must fulfil besides: of a join by NOT IN; null for nothing. */
  Expression demanded;

  final JoinKind kind;
  Search search;

  private IndexJoin(
      JoinType type, boolean tableIsRight, LogicalPlan stream, List<Attribute> brought,
      StoredScan scan) {
    this.type = type;
    kind = JoinKind.of(type, tableIsRight);
    this.tableIsRight = tableIsRight;
    this.stream = stream;
    this.brought = brought;
    this.scan = scan;
    manifest = scan.manifest;
    follows = scan.live && !scan.table.pinned;
    TableIdentity table = scan.table.table.identity;
    stored =
        follows
            ? new LiveVersion(table, manifest, scan.expected(), isUnique())
            : new StoredVersion(table, manifest);
  }

  /**
   * A call of {@code bsjoin.join}, which {@link Matches} has checked.
   *
   * @param aggregates see there; nothing where it brings the columns
   * @param marks see there
   */
  static IndexJoin of(
      Generate call, JoinType type, StoredScan scan, JsonNode aggregates, boolean marks) {
    List<Attribute> brought = Scala.list(call.generatorOutput());
    IndexJoin found = new IndexJoin(type, true, call.child(), brought, scan);
    StructField[] fields = scan.columns.fields();
    for (int i = 0; i < aggregates.size(); i++) {
      found.aggregates.put(brought.get(i).exprId(), aggregates.path(i));
      found.values.put(brought.get(i).exprId(), brought.get(i));
    }
    for (int i = 0; aggregates.isEmpty() && i < fields.length; i++) {
      Attribute column = brought.get(i);
      found.columns.put(column.exprId(), fields[i].name());
      found.values.put(column.exprId(), column);
    }
    if (marks) {
      found.match = brought.get(brought.size() - 1);
      found.values.put(found.match.exprId(), found.match);
    }
    return found;
  }

  /** Search by these keys; false if one has a type that the index does not compare. */
  boolean findBy(List<Expression> all) {
    for (Expression key : all) {
      given.add(key);
      keys.add(KeyTypes.searched(key, manifest.keyTypes.get(keys.size())));
    }
    return !keys.contains(null);
  }

  /** A join as one that the index answers; null if it does not. */
  static IndexJoin of(Join join) {
    if (join.condition().isEmpty()) {
      return null;
    }
    StoredScan right = scan(join.right());
    StoredScan left = scan(join.left());
    if (right != null && left != null && left.manifest.live > right.manifest.live) {
      IndexJoin found = of(join, false, left); // the larger table is the one that is not read
      return found == null ? of(join, true, right) : found;
    }
    IndexJoin found = right == null ? null : of(join, true, right);
    return found == null && left != null ? of(join, false, left) : found;
  }

  private static IndexJoin of(Join join, boolean tableIsRight, StoredScan scan) {
    JoinKind kind = JoinKind.of(join.joinType(), tableIsRight);
    if (kind == null || !Hints.allow(join, tableIsRight) || !isReadable(scan)) {
      return null;
    }
    LogicalPlan table = tableIsRight ? join.right() : join.left();
    LogicalPlan stream = tableIsRight ? join.left() : join.right();
    List<Attribute> brought = Scala.list(table.output());
    IndexJoin found = new IndexJoin(join.joinType(), tableIsRight, stream, brought, scan);
    if (!found.readTable(table, found.values) || !found.readCondition(join.condition().get())) {
      return null;
    }
    found.search = found.found();
    return found.search == null ? null : found;
  }

  /** The scan that a side of a join is of, with nothing but selections and filters above it. */
  private static StoredScan scan(LogicalPlan side) {
    LogicalPlan at = side;
    while (at instanceof Project || at instanceof Filter) {
      at = at.children().head();
    }
    return at instanceof DataSourceV2ScanRelation found && found.scan() instanceof StoredScan scan
        ? scan
        : null;
  }

  private static boolean isReadable(StoredScan scan) {
    return Arrays.stream(scan.columns.fields())
        .allMatch(field -> ColumnType.of(field.dataType()) != null);
  }

  /** Whether an expression has columns of the stream, and no others. */
  boolean isOfStream(Expression expression) {
    AttributeSet references = expression.references();
    return references.nonEmpty() && references.subsetOf(stream.outputSet());
  }

  /** The name of the table's column that an expression is; null if it is none. */
  String column(Expression expression) {
    return expression instanceof AttributeReference same ? columns.get(same.exprId()) : null;
  }

  /** Read the table's side: what its columns are, and which rows it leaves out. */
  private boolean readTable(LogicalPlan side, Map<ExprId, Expression> made) {
    if (side instanceof DataSourceV2ScanRelation) {
      for (Attribute column : Scala.list(side.output())) {
        columns.put(column.exprId(), column.name());
        made.put(column.exprId(), column);
      }
      return true;
    }
    if (side instanceof Filter filter) {
      if (!readTable(filter.child(), made)) {
        return false;
      }
      for (Expression one : conjuncts(filter.condition(), new ArrayList<>())) {
        // Spark adds these to read less: they drop only rows that match nothing.
        if (!(one instanceof BloomFilterMightContain) && !demand(substituted(one, made))) {
          return false;
        }
      }
      return true;
    }
    Project selection = (Project) side;
    Map<ExprId, Expression> below = new HashMap<>();
    if (!readTable(selection.child(), below)) {
      return false;
    }
    for (NamedExpression named : Scala.list(selection.projectList())) {
      Expression value = named instanceof Alias alias ? alias.child() : (Expression) named;
      if (!isPlain(value)) {
        return false;
      }
      made.put(named.exprId(), substituted(value, below));
    }
    return true;
  }

  private boolean readCondition(Expression whole) {
    Expression[] found = new Expression[manifest.keyNames.size()];
    Expression[] sides = new Expression[found.length];
    EqualTo notIn = kind == JoinKind.ANTI ? nullAware(whole) : null;
    Expression condition = notIn == null ? whole : notIn;
    for (Expression one : conjuncts(condition, new ArrayList<>())) {
      int number = key(one, found, sides);
      if (number == -1 && !demand(substituted(one, values))) {
        return false;
      }
    }
    keys.addAll(Arrays.asList(found));
    if (keys.contains(null)) {
      return false;
    }
    given.addAll(Arrays.asList(sides));
    // A key that is found is not null.
    boolean areKnown =
        residual.removeIf(
            one -> one instanceof IsNotNull known && isNeverNull(keyNumber(known.child())));
    return notIn == null || (areKnown || !mayHaveNullKeys()) && isNullAware();
  }

  /** The equality of a join by NOT IN, for which a null may equal anything; null for another. */
  private static EqualTo nullAware(Expression condition) {
    return condition instanceof Or either
            && either.left() instanceof EqualTo equal
            && either.right() instanceof IsNull isNull
            && isNull.child().semanticEquals(equal)
        ? equal
        : null;
  }

  /**
   * Whether a join by NOT IN can be answered: a null on the stream's side is dropped unless
   * no row with a key is on the table's, which is known where that has no filter.
   */
  private boolean isNullAware() {
    if (keys.size() != 1) {
      return false;
    }
    demanded = given.get(0).nullable() ? new IsNotNull(given.get(0)) : null;
    // Of a table with null keys in its index, all rows may have them.
    return demanded == null
        || residual.isEmpty() && manifest.live > 0 && !manifest.hasNullKeys() && !follows;
  }

  /** Which key column a condition is the equality of, whose other side is added; -1 for none. */
  private int key(Expression condition, Expression[] found, Expression[] sides) {
    if (!(condition instanceof EqualTo || condition instanceof EqualNullSafe)) {
      return -1;
    }
    Expression left = condition.children().head();
    Expression right = condition.children().last();
    boolean isLeft = isOfStream(left);
    Expression given = isLeft ? left : right;
    if (!isOfStream(given) || !isPlain(given)) {
      return -1;
    }
    int number = keyNumber(KeyTypes.column(substituted(isLeft ? right : left, values)));
    if (number < 0 || found[number] != null) {
      return -1;
    }
    boolean meetsNulls =
        condition instanceof EqualNullSafe && given.nullable() && mayHaveNullKeys();
    if (meetsNulls && !manifest.isNullSafe(number)) {
      return -1; // the rows with null keys are not in the index
    }
    found[number] = KeyTypes.searched(given, manifest.keyTypes.get(number));
    sides[number] = given;
    if (found[number] == null) {
      return -1;
    }
    if (meetsNulls) {
      nullSafe.add(number);
    }
    return number;
  }

  private boolean isNeverNull(int key) {
    return key >= 0 && !nullSafe.contains(key);
  }

  private int keyNumber(Expression column) {
    return manifest.keyNames.indexOf(column(column));
  }

  /** Whether a row of the table may have a null key: such rows are not in the index. */
  private boolean mayHaveNullKeys() {
    return follows || manifest.mayHaveNullKeys();
  }

  /** Whether a column that is read may have nulls, in this version or in one that is followed. */
  boolean mayHaveNulls(String name) {
    int place = manifest.place(name);
    boolean mayCome = follows && scan.columns.fields()[scan.columns.fieldIndex(name)].nullable();
    return place < 0 || mayCome || manifest.isNullable(place);
  }

  /** Whether the index has all rows of a key; one for ranges lacks those without a point. */
  private boolean hasAllRowsOfKeys() {
    return manifest.rangeColumns == 0 || !follows && manifest.indexesAllRows();
  }

  /** Whether the join relies on keys of which no version may have several rows. */
  private boolean isUnique() {
    boolean bringsRows = kind == JoinKind.INNER || kind == JoinKind.OUTER;
    return manifest.unique && manifest.rangeColumns == 0 && bringsRows;
  }

  /** How many rows a key has at most. */
  int longestRun() {
    return !follows ? manifest.longestRun : isUnique() ? 1 : Integer.MAX_VALUE;
  }

  private boolean demand(Expression condition) {
    if (!isPlain(condition)) {
      return false;
    }
    residual.add(condition);
    return true;
  }

  /** Whether it does not matter when and how often an expression is evaluated. */
  static boolean isPlain(Expression expression) {
    return expression.deterministic() && !SubqueryExpression.hasSubquery(expression);
  }

  /** How the rows are found; null if the index does not have all that match. */
  private Search found() {
    if (AsOfCondition.isIn(this)) {
      return AsOfCondition.of(this);
    }
    Search found = manifest.rangeColumns > 0 ? Ranges.of(this) : null;
    boolean hasAll = hasAllRowsOfKeys() || residual.stream().anyMatch(this::isPointKnown);
    return found == null && !keys.isEmpty() && hasAll
        ? new Search(new KeyFinder(searched()), List.of(), residual, List.of(), List.of())
        : found;
  }

  /** Whether a condition is that the point is not null: in the index it never is. */
  boolean isPointKnown(Expression condition) {
    return manifest.rangeColumns > 0 && isKnown(manifest.range.names().get(0), condition);
  }

  private boolean isKnown(String name, Expression condition) {
    return condition instanceof IsNotNull known && name.equals(column(known.child()));
  }

  /** Whether no row that matches lacks its point, or start, in a range. */
  boolean hasPoints(Dimension dimension) {
    String name = dimension.names().get(0);
    boolean isFirst = name.equals(manifest.range.names().get(0));
    return residual.stream().anyMatch(one -> isKnown(name, one))
        || isFirst && !follows && manifest.indexesAllRows();
  }

  static List<Expression> conjuncts(Expression condition, List<Expression> found) {
    if (condition instanceof And both) {
      conjuncts(both.left(), found);
      conjuncts(both.right(), found);
    } else {
      found.add(condition);
    }
    return found;
  }

  /** An expression with others in the place of attributes. */
  static Expression substituted(Expression expression, Map<ExprId, Expression> by) {
    return OwnExpression.replaced(
        expression, one -> one instanceof AttributeReference same ? by.get(same.exprId()) : null);
  }

  /**
   * What the operator does that joins by a search.
   *
   * @param collector see {@link Lookup}
   */
  Lookup lookup(Search search, int kept, Collector collector) {
    String how = search.finder() instanceof BoxFinder ? ", boxes " : ", ranges ";
    String ranges = search.answered().isEmpty() ? "" : how + conjunction(search.answered());
    List<Expression> rest = search.residual();
    String demands = rest.isEmpty() ? "" : ", condition " + conjunction(rest);
    String description =
        "[" + scan.table.label + " version " + manifest.version
            + (follows ? " on] " : "] ") + type + ", keys " + given + ranges + demands;
    Set<String> on = new LinkedHashSet<>();
    given.forEach(key -> on.add(named(key)));
    for (Expression one : search.answered()) {
      for (Attribute column : Scala.list(one.references().toSeq())) {
        if (stream.outputSet().contains(column)) {
          on.add(column.name());
        }
      }
    }
    return new Lookup(
        kind, tableIsRight, search.finder(), search.limit(), kept, manifest.compared.length,
        search.arguments().size(), description,
        manifest.indexed().mapToLong(one -> one.file(-1).size()).sum(), label, collector,
        scan.table.label, scan.table.path, manifest.version, new ArrayList<>(on));
  }

  /** The rows that its finder searches. */
  Finder.Searched searched() {
    return new Finder.Searched(stored, manifest.isByInteger(), manifest.compared, longestRun());
  }

  private static String named(Expression key) {
    return key instanceof Attribute column
        ? column.name()
        : package$.MODULE$.toPrettySQL(key, false);
  }

  private static String conjunction(List<Expression> conditions) {
    return conditions.stream().map(Expression::toString).collect(Collectors.joining(" AND "));
  }
}
