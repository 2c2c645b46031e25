"""The queues and the indexes by key of a store from its log: new ones in staging, which a swap puts in place.

May import all of `build` but `grow`.
"""
