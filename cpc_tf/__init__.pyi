from cpc_tf.core.settings import ConfigError as ConfigError
from cpc_tf.core.settings import RunEnded as RunEnded
from cpc_tf.encoders.features import Encoder as Encoder
from cpc_tf.encoders.side_by_side import load_encoder as load_encoder
from cpc_tf.use.api import classify as classify
from cpc_tf.use.api import embed as embed
from cpc_tf.use.api import predict as predict
from cpc_tf.use.api import pretrain as pretrain
from cpc_tf.use.api import train_classifier as train_classifier
from cpc_tf.use.model import Model as Model

__version__: str
