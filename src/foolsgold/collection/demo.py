def load_demo(**k): raise NotImplementedError
