"""The remoting protocol: where clients connect, their requests, the answers to them, and the broker's own requests.

`pages` serves the one page that is not in that protocol, metrics by HTTP.

May import nothing of the other folders of `broker`.
"""
