"""`treadle results`: keep what experiments come to, and write the pages' tables from it."""
