"""Both indexes of a store from its log: new ones in staging, which a swap puts in place of the old ones.

May import all of `build` but `grow`.
"""
