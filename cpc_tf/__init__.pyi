from cpc_tf.api.encoder import Encoder as Encoder
from cpc_tf.api.encoder import load_encoder as load_encoder
from cpc_tf.api.runs import pretrain as pretrain
from cpc_tf.settings import ConfigError as ConfigError

__version__: str
