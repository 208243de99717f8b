from .reproduction import Reproduction as Reproduction
from .reproduction import reproduce as reproduce
from .reproduction import reproduce_papers as reproduce_papers
