from cpc_tf.api.encoder import Encoder as Encoder
from cpc_tf.api.encoder import embed as embed
from cpc_tf.api.encoder import load_encoder as load_encoder
from cpc_tf.api.model import Model as Model
from cpc_tf.api.model import predict as predict
from cpc_tf.api.runs import classify as classify
from cpc_tf.api.runs import pretrain as pretrain
from cpc_tf.settings import ConfigError as ConfigError
from cpc_tf.settings import RunEnded as RunEnded

__version__: str
