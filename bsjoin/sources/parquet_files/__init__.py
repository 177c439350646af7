"""``parquet``: files and folders, as Spark reads them; only row groups that can hold a key."""
