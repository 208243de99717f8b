from .attention.custom_modules import watch_attention as watch_attention
from .loading.load import load as load
from .model import Model as Model
