from .measure import CorpusMeasure as CorpusMeasure
from .measure import Observation as Observation
from .registry import MEASURES as MEASURES
from .registry import packages_of as packages_of
from .state import Failure as Failure
from .state import State as State
