"""Simulations from Python: a scenario, a policy, a seed; the results are numpy tables.

See docs/simulate-from-python.md. This package's exports are stable; its modules may change.

>>> from treadle.simulate import Scenario, simulate
>>> run = simulate(Scenario.read("scenario.yaml"), "hdrf")  # doctest: +SKIP
"""

from treadle.simulate.batch import Run as Run
from treadle.simulate.batch import Scenario as Scenario
from treadle.simulate.batch import simulate as simulate
from treadle.simulate.batch import simulate_all as simulate_all
from treadle.simulate.comparison import Interval as Interval
from treadle.simulate.comparison import Pair as Pair
from treadle.simulate.comparison import Slowdown as Slowdown
from treadle.simulate.comparison import interval_of as interval_of
from treadle.simulate.comparison import interval_of_difference as interval_of_difference
from treadle.simulate.comparison import interval_of_ratio as interval_of_ratio
from treadle.simulate.comparison import pairs_of as pairs_of
from treadle.simulate.comparison import slowdowns_of as slowdowns_of
from treadle.simulate.comparison import write_tables as write_tables
from treadle.simulator.results import FailedRun as FailedRun
from treadle.workload.formats import read_workload as read_workload
from treadle.workload.job import Framework as Framework
from treadle.workload.job import Job as Job
from treadle.workload.job import Workload as Workload
from treadle.workload.job import arranged as arranged
