from .attention.custom_modules import watch_attention as watch_attention
from .generation.answer import Answer as Answer
from .generation.answer import Text as Text
from .load_model import load as load
from .model import Model as Model
from .pictures import Picture as Picture
from .pictures import open_picture as open_picture
