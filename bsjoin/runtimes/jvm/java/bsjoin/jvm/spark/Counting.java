package bsjoin.jvm.spark;

/** A function whose calls count rows: each plan that is made has one of its own. */
public interface Counting {
  /** The same function, for the plan that is made in this thread; this one if it is that of a plan. */
  Counting counting();
}
