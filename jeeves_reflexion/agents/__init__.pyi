from jeeves_reflexion.agents.function import FunctionAgent as FunctionAgent
from jeeves_reflexion.agents.function import as_agent as as_agent
from jeeves_reflexion.agents.mcp import mcp_tools as mcp_tools
from jeeves_reflexion.agents.react import ReAct as ReAct
from jeeves_reflexion.agents.tools import Tool as Tool
from jeeves_reflexion.agents.tools import as_tool as as_tool
