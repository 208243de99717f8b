from .attention.custom_modules import watch_attention as watch_attention
from .encoding.picture import Picture as Picture
from .encoding.picture import open_picture as open_picture
from .generation.answer import Answer as Answer
from .generation.answer import Text as Text
from .loading.load import load as load
from .model import Model as Model
