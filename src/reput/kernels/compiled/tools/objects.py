"""Python's own objects as arguments and answers of entry kernels, without a conversion on the way.

An argument of type OBJECT is a borrowed reference: the caller's arguments hold it during the call. Each `..._of` looks
at the object by CPython's C API and says if it is of another class; none of them raises, or runs code of Python. The
GIL must be held, as `entry_kernel` has it.
"""

from __future__ import annotations

import ctypes
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel import models
from numba.core.datamodel.registry import register_default
from numba.core.pythonapi import NativeValue, box, unbox
from numba.extending import intrinsic

from reput.formats.layout import INT64_MIN
from reput.kernels.compiled.tools.jit import INT

NO_INT = INT64_MIN
"""The answer of `int_of` for what is no int, or none of 64 bits; and for this number itself."""
_WORD, _BYTE = ir.IntType(64), ir.IntType(8)
_POINTER = _BYTE.as_pointer()
_TYPE_AT = object.__basicsize__ - ctypes.sizeof(ctypes.c_void_p)
"""The place of an object's class in the object: the last field that all objects have."""
assert ctypes.c_void_p.from_address(id(NO_INT) + _TYPE_AT).value == id(int), "an unknown layout of Python's objects"
_PAIR = types.UniTuple(INT, 2)


class _ObjectType(types.Type):
    """A borrowed reference to a Python object; its value is the object's address."""

    def __init__(self) -> None:
        super().__init__(name="PythonObject")


class _AnswerType(types.Type):
    """A tuple to make: the six values of an answer, four of them numbers; see `answer`."""

    fields = ("model", "first", "second", "third", "fourth")

    def __init__(self) -> None:
        super().__init__(name="PythonAnswer")


OBJECT, ANSWER = _ObjectType(), _AnswerType()


@register_default(_ObjectType)
class _ObjectModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _WORD)


@register_default(_AnswerType)
class _AnswerModel(models.StructModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, [(name, INT) for name in _AnswerType.fields])


@unbox(_ObjectType)
def _unbox_object(kind: Any, given: Any, call: Any) -> NativeValue:
    return NativeValue(call.builder.ptrtoint(given, _WORD))


def _function(builder: Any, result: Any, name: str, *arguments: Any) -> Any:
    """Declare a function of CPython's C API."""
    return cgutils.get_or_insert_function(builder.module, ir.FunctionType(result, arguments), name)


@box(_AnswerType)
def _box_answer(kind: Any, value: Any, call: Any) -> Any:
    """Make the object: None if the model's address is 0, else a tuple of the model's class."""
    builder = call.builder
    given = cgutils.create_struct_proxy(kind)(call.context, builder, value=value)
    made = cgutils.alloca_once_value(builder, call.pyapi.borrow_none())
    is_none = builder.icmp_unsigned("==", given.model, ir.Constant(_WORD, 0))
    with builder.if_else(is_none) as (nothing, something):
        with nothing:
            call.pyapi.incref(builder.load(made))
        with something:
            builder.store(_answer_object(builder, call.pyapi, given), made)
    return builder.load(made)


def _answer_object(builder: Any, pyapi: Any, given: Any) -> Any:
    """Return a new tuple of the model's class, or null if there is no memory."""
    model = builder.inttoptr(given.model, pyapi.pyobj)
    own_class = builder.load(
        builder.bitcast(builder.gep(model, [ir.Constant(_WORD, _TYPE_AT)]), pyapi.pyobj.as_pointer())
    )
    allocate = _function(builder, pyapi.pyobj, "PyType_GenericAlloc", pyapi.pyobj, _WORD)
    made = builder.call(allocate, [own_class, ir.Constant(_WORD, 6)])
    result = cgutils.alloca_once_value(builder, made)
    with builder.if_then(builder.icmp_unsigned("!=", made, ir.Constant(pyapi.pyobj, None)), likely=True):
        for place in (0, 5):
            shared = pyapi.tuple_getitem(model, place)
            pyapi.incref(shared)
            pyapi.tuple_setitem(made, place, shared)
        is_whole = ir.Constant(ir.IntType(1), 1)
        for place, name in enumerate(_AnswerType.fields[1:], 1):
            number = pyapi.long_from_longlong(getattr(given, name))
            is_whole = builder.and_(is_whole, builder.icmp_unsigned("!=", number, ir.Constant(pyapi.pyobj, None)))
            pyapi.tuple_setitem(made, place, number)
        with builder.if_then(builder.not_(is_whole), likely=False):
            pyapi.decref(made)
            builder.store(ir.Constant(pyapi.pyobj, None), result)
    return builder.load(result)


def _answer(typing_context: Any, model: Any, first: Any, second: Any, third: Any, fourth: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        made = cgutils.create_struct_proxy(ANSWER)(context, builder)
        for name, value in zip(_AnswerType.fields, args, strict=True):
            setattr(made, name, value)
        return made._getvalue()  # noqa: SLF001 - numba's own way

    return ANSWER(INT, INT, INT, INT, INT), code


answer = intrinsic(_answer)
"""Return a tuple like the one at an address, `model`, but with these four numbers at its places 1 to 4; 0: None.

`model` is the address of a tuple of six values, or of a subclass that adds no attributes; the maker keeps it.
"""


def _is_exactly(context: Any, builder: Any, given: Any, name: str) -> Any:
    """Return True if an object is of one class of C, and of no subclass."""
    found = builder.load(builder.inttoptr(builder.add(given, ir.Constant(_WORD, _TYPE_AT)), _WORD.as_pointer()))
    wanted = context.get_python_api(builder).get_c_object(name)
    return builder.icmp_unsigned("==", found, builder.ptrtoint(wanted, _WORD))


def _pair(context: Any, builder: Any, first: Any, second: Any) -> Any:
    return context.make_tuple(builder, _PAIR, [first, second])


def _is_none(typing_context: Any, given: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        none = builder.ptrtoint(context.get_python_api(builder).borrow_none(), _WORD)
        return builder.icmp_unsigned("==", args[0], none)

    return types.boolean(OBJECT), code


is_none = intrinsic(_is_none)
"""Return True if an object is None."""


def _int_of(typing_context: Any, given: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        result = cgutils.alloca_once_value(builder, ir.Constant(_WORD, NO_INT))
        overflow = cgutils.alloca_once(builder, ir.IntType(32))
        with builder.if_then(_is_exactly(context, builder, args[0], "PyLong_Type"), likely=True):
            read = _function(builder, _WORD, "PyLong_AsLongLongAndOverflow", _POINTER, ir.IntType(32).as_pointer())
            number = builder.call(read, [builder.inttoptr(args[0], _POINTER), overflow])
            with builder.if_then(builder.icmp_signed("==", builder.load(overflow), ir.Constant(ir.IntType(32), 0))):
                builder.store(number, result)
        return builder.load(result)

    return INT(OBJECT), code


int_of = intrinsic(_int_of)
"""Return the value of an int; NO_INT for any other object, a bool too."""


def _bytes_of(typing_context: Any, given: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        at, size = (cgutils.alloca_once_value(builder, ir.Constant(_WORD, 0)) for _ in range(2))
        with builder.if_then(_is_exactly(context, builder, args[0], "PyBytes_Type"), likely=True):
            data = builder.inttoptr(args[0], _POINTER)
            found = builder.call(_function(builder, _POINTER, "PyBytes_AsString", _POINTER), [data])
            builder.store(builder.ptrtoint(found, _WORD), at)
            builder.store(builder.call(_function(builder, _WORD, "PyBytes_Size", _POINTER), [data]), size)
        return _pair(context, builder, builder.load(at), builder.load(size))

    return _PAIR(OBJECT), code


bytes_of = intrinsic(_bytes_of)
"""Return the address and the size of the data of bytes; address 0 for any other object."""


def _text_of(typing_context: Any, given: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        at, size = (cgutils.alloca_once_value(builder, ir.Constant(_WORD, 0)) for _ in range(2))
        with builder.if_then(_is_exactly(context, builder, args[0], "PyUnicode_Type"), likely=True):
            encode = _function(builder, _POINTER, "PyUnicode_AsUTF8AndSize", _POINTER, _WORD.as_pointer())
            found = builder.call(encode, [builder.inttoptr(args[0], _POINTER), size])
            builder.store(builder.ptrtoint(found, _WORD), at)
            with builder.if_then(builder.icmp_unsigned("==", found, ir.Constant(_POINTER, None)), likely=False):
                # Half a character, or no memory.
                builder.call(_function(builder, ir.VoidType(), "PyErr_Clear"), [])
        return _pair(context, builder, builder.load(at), builder.load(size))

    return _PAIR(OBJECT), code


text_of = intrinsic(_text_of)
"""Return the address and the size of a text in UTF-8; address 0 for any other object, and for half a character.

A text that is not ASCII keeps its UTF-8 as long as it lives.
"""


def _class_at(typing_context: Any, given: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = builder.add(args[0], ir.Constant(_WORD, _TYPE_AT))
        return builder.load(builder.inttoptr(place, _WORD.as_pointer()))

    return INT(OBJECT), code


class_at = intrinsic(_class_at)
"""Return the address of an object's class."""


def _object_at(typing_context: Any, given: Any, place: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        found = builder.load(builder.inttoptr(builder.add(args[0], args[1]), _WORD.as_pointer()))
        none = builder.ptrtoint(context.get_python_api(builder).get_c_object("_Py_NotImplementedStruct"), _WORD)
        return builder.select(builder.icmp_unsigned("==", found, ir.Constant(_WORD, 0)), none, found)

    return OBJECT(OBJECT, INT), code


object_at = intrinsic(_object_at)
"""Return the object in a slot of an object, at that many bytes of it; NotImplemented if it was deleted."""


def _sized(type_name: str, function: str) -> Any:
    def size(typing_context: Any, given: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            result = cgutils.alloca_once_value(builder, ir.Constant(_WORD, -1))
            with builder.if_then(_is_exactly(context, builder, args[0], type_name)):
                read = _function(builder, _WORD, function, _POINTER)
                builder.store(builder.call(read, [builder.inttoptr(args[0], _POINTER)]), result)
            return builder.load(result)

        return INT(OBJECT), code

    return size


list_size = intrinsic(_sized("PyList_Type", "PyList_Size"))
"""Return the length of a list; -1 for any other object."""


def _list_item(typing_context: Any, given: Any, place: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        read = _function(builder, _POINTER, "PyList_GetItem", _POINTER, _WORD)
        return builder.ptrtoint(builder.call(read, [builder.inttoptr(args[0], _POINTER), args[1]]), _WORD)

    return OBJECT(OBJECT, INT), code


list_item = intrinsic(_list_item)
"""Return an item of a list; the place is one of the list."""


def _dict_number(typing_context: Any, given: Any, key: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        result = cgutils.alloca_once_value(builder, ir.Constant(_WORD, NO_INT))
        with builder.if_then(_is_exactly(context, builder, args[1], "PyUnicode_Type"), likely=True):
            read = _function(builder, _POINTER, "PyDict_GetItemWithError", _POINTER, _POINTER)
            found = builder.call(read, [builder.inttoptr(one, _POINTER) for one in args])
            with builder.if_then(builder.icmp_unsigned("!=", found, ir.Constant(_POINTER, None)), likely=True):
                number = _function(builder, _WORD, "PyLong_AsLongLong", _POINTER)
                builder.store(builder.call(number, [found]), result)
        return builder.load(result)

    return INT(OBJECT, OBJECT), code


dict_number = intrinsic(_dict_number)
"""Return the value of a text in a dictionary of texts and numbers of 64 bits; NO_INT if it has none."""
