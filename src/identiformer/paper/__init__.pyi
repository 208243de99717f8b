from .reproduction import Reproduction as Reproduction
from .reproduction import reproduce as reproduce
from .several import reproduce_papers as reproduce_papers
