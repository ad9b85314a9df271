from jeeves_reflexion.revisers.edits import Edit as Edit
from jeeves_reflexion.revisers.edits import Edited as Edited
from jeeves_reflexion.revisers.edits import ParsedEdits as ParsedEdits
from jeeves_reflexion.revisers.edits import apply_edits as apply_edits
from jeeves_reflexion.revisers.edits import parse_edits as parse_edits
from jeeves_reflexion.revisers.model import AgentReviser as AgentReviser
from jeeves_reflexion.revisers.model import ModelReviser as ModelReviser
from jeeves_reflexion.revisers.scope import choose as choose
