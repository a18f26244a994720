"""`treadle results`: keep the results of experiments, and write the pages' tables from them."""
