"""The remoting protocol: where clients connect, their requests, the answers to them, and the broker's own requests.

May import nothing of the other folders of `broker`.
"""
