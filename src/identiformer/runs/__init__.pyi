from .comparison import compare as compare
from .corpus_run import run as run
from .finished_run import Run as Run
from .finished_run import merge_runs as merge_runs
from .finished_run import open_run as open_run
