from cpc_tf.api import classify as classify
from cpc_tf.api import embed as embed
from cpc_tf.api import load_encoder as load_encoder
from cpc_tf.api import predict as predict
from cpc_tf.api import pretrain as pretrain
from cpc_tf.api import train_classifier as train_classifier
from cpc_tf.embed.encoder import Encoder as Encoder
from cpc_tf.predict.model import Model as Model
from cpc_tf.settings import ConfigError as ConfigError
from cpc_tf.settings import RunEnded as RunEnded

__version__: str
