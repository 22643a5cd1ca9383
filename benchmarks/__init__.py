from cpc_tf import environment

environment.prepare()
