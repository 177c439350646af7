"""Java that the driver compiles and runs: one call from Python in place of one for each partition.

Spark has Janino for its code generation, so nothing is shipped. Janino knows no generics.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["HOSTS", "PIN", "WAIT", "Script"]


@dataclass(frozen=True)
class Script:
    """The body of a method.

    Args:
        body: its statements.
        parameters: their names and classes.
        returns: the class of its result.
    """

    body: str
    parameters: tuple[tuple[str, str], ...]
    returns: str

    @property
    def method(self) -> str:
        """The method ``run``: called by its name, it takes its arguments in one call."""
        parameters = ", ".join(f"{kind} {name}" for name, kind in self.parameters)
        return f"public {self.returns} run({parameters}) throws Exception {{{self.body}}}"


PIN = Script(
    """
    String[] at = where.split("\\n", -1);
    scala.Option nowhere = scala.Option.empty();
    org.apache.spark.rdd.CoalescedRDD found =
        new org.apache.spark.rdd.CoalescedRDD(parent, at.length, nowhere, parent.elementClassTag());
    found.setName("placed");
    org.apache.spark.Partition[] kept = found.partitions();
    for (int i = 0; i < at.length; i++) {
        scala.Option one = at[i].isEmpty() ? nowhere : scala.Option.apply(at[i]);
        kept[i] = new org.apache.spark.rdd.CoalescedRDDPartition(i, parent, new int[] {i}, one);
    }
    return found;
    """,
    (
        ("parent", "org.apache.spark.rdd.RDD"),
        ("where", "java.lang.String"),
    ),
    "org.apache.spark.rdd.CoalescedRDD",
)
"""An RDD of the same partitions; line i of ``where`` is the location of partition i, or empty."""

HOSTS = Script(
    """
    StringBuilder found = new StringBuilder();
    org.apache.spark.Partition[] all = parent.partitions();
    for (int i = 0; i < all.length; i++) {
        if (i > 0) found.append("\\n");
        found.append(parent.preferredLocations(all[i]).mkString("\\t"));
    }
    return found.toString();
    """,
    (("parent", "org.apache.spark.rdd.RDD"),),
    "java.lang.String",
)
"""The preferred locations of an RDD: one line a partition, separated by tabs."""

WAIT = Script(
    """
    org.apache.spark.scheduler.TaskSchedulerImpl scheduler =
        (org.apache.spark.scheduler.TaskSchedulerImpl) context.taskScheduler();
    Object backend = scheduler.backend();
    org.apache.spark.ExecutorAllocationClient executors = null;
    if (backend instanceof org.apache.spark.ExecutorAllocationClient)
        executors = (org.apache.spark.ExecutorAllocationClient) backend;
    java.util.List running;
    synchronized (scheduler) {
        running = new java.util.ArrayList(scala.jdk.javaapi.CollectionConverters.asJava(
            (scala.collection.mutable.Buffer) scheduler.rootPool().getSortedTaskSetQueue()));
    }
    int found = 0;
    boolean changed = false;
    for (int k = 0; k < running.size(); k++) {
        org.apache.spark.scheduler.TaskSetManager set =
            (org.apache.spark.scheduler.TaskSetManager) running.get(k);
        try {
            if (!context.statusStore().lastStageAttempt(set.taskSet().stageId())
                    .rddIds().contains(Integer.valueOf(rdd))) continue;
        } catch (java.util.NoSuchElementException notListedYet) {
            continue;
        }
        synchronized (scheduler) {
            if (set.isZombie()) continue;
            found++;
            java.util.Map pinned = scala.jdk.javaapi.CollectionConverters.asJava(
                (scala.collection.mutable.Map) set.pendingTasks().forExecutor());
            java.util.List free = scala.jdk.javaapi.CollectionConverters.asJava(
                (scala.collection.mutable.Buffer) set.pendingTasks().noPrefs());
            Object[] names = pinned.keySet().toArray();
            boolean lost = false;
            for (int i = 0; i < names.length; i++) {
                String name = (String) names[i];
                if (scheduler.isExecutorAlive(name)
                        && (executors == null || executors.isExecutorActive(name))) continue;
                free.addAll(scala.jdk.javaapi.CollectionConverters.asJava(
                    (scala.collection.mutable.Buffer) pinned.remove(name)));
                lost = true;
            }
            if (lost) set.recomputeLocality();
            Object[] levels = set.myLocalityLevels();
            long[] waits = new long[levels.length];
            for (int i = 0; i < levels.length; i++) {
                waits[i] = levels[i].toString().equals("PROCESS_LOCAL") ? (long) millis : 0L;
            }
            lost |= !java.util.Arrays.equals(waits, set.localityWaits());
            set.localityWaits_$eq(waits);
            changed |= lost;
        }
    }
    if (changed) scheduler.backend().reviveOffers();
    return found;
    """,
    (
        ("context", "org.apache.spark.SparkContext"),
        ("rdd", "int"),
        ("millis", "int"),
    ),
    "int",
)
"""Sets how long the running stages of an RDD wait for executors, and frees tasks of lost ones."""
