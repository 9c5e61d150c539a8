package library_test

import "testing"

const (
	ints       = "[1, 2, 3, 4, 5]"
	uints      = "[uint(1), uint(2), uint(3), uint(4), uint(5)]"
	doubles    = "[1.0, 2.0, 3.0, 4.0, 5.0]"
	bools      = "[false, true, false, true, false]"
	texts      = "['012345678901', '012345678901', '012345678901', '012345678901', '012345678901']"
	byteses    = "[bytes('012345678901'), bytes('012345678901'), bytes('012345678901'), bytes('012345678901'), bytes('012345678901')]"
	durations  = "[duration('1s'), duration('2s'), duration('3s'), duration('4s'), duration('5s')]"
	timestamps = "[timestamp('2011-01-01T00:00:00Z'), timestamp('2011-01-02T00:00:00Z'), timestamp('2011-01-03T00:00:00Z')]"
)

func TestLists(t *testing.T) {
	t.Parallel()
	run(t, []example{
		// Creating a list costs 10. Visiting an element or converting a value costs 1.
		{ints + ".sum()", "15", 15, 15, 15},
		{uints + ".sum()", "15u", 20, 20, 20},
		{doubles + ".sum()", "15.0", 15, 15, 15},
		{durations + ".sum()", "duration('15s')", 20, 20, 20},
		{"[].sum()", "0", 10, 10, 10},
		{"[1.5].filter(x, x > 2.0).sum()", "0.0", 0, 0, 0},
		{"[9223372036854775807, 1].sum()", "error: integer overflow", 0, 0, 0},
		{"[18446744073709551615u, 1u].sum()", "error: unsigned integer overflow", 0, 0, 0},

		{ints + ".isSorted()", "true", 15, 15, 15},
		{uints + ".isSorted()", "true", 20, 20, 20},
		{doubles + ".isSorted()", "true", 15, 15, 15},
		{bools + ".isSorted()", "false", 15, 15, 15},
		{texts + ".isSorted()", "true", 15, 25, 15},
		{byteses + ".isSorted()", "true", 25, 35, 25},
		{durations + ".isSorted()", "true", 20, 20, 20},
		{timestamps + ".isSorted()", "true", 16, 16, 16},
		{"[2, 1].isSorted()", "false", 12, 12, 12},
		{"['a', 'b', 'b'].isSorted()", "true", 13, 19, 10},
		{"[].isSorted()", "true", 10, 10, 10},
		{"[double('NaN'), 1.0].isSorted()", "true", 0, 0, 0},

		{ints + ".min()", "1", 15, 15, 15},
		{ints + ".max()", "5", 15, 15, 15},
		{uints + ".min()", "1u", 20, 20, 20},
		{doubles + ".max()", "5.0", 15, 15, 15},
		{bools + ".max()", "true", 15, 15, 15},
		{"['b', 'a', 'c'].min()", "'a'", 13, 19, 10},
		{"['b', 'c', 'a'].max()", "'c'", 13, 19, 10},
		{byteses + ".max()", "b'012345678901'", 25, 35, 25},
		{durations + ".min()", "duration('1s')", 20, 20, 20},
		{timestamps + ".max()", "timestamp('2011-01-03T00:00:00Z')", 16, 16, 16},
		{"[1].filter(x, x > 1).min()", "error: min called on empty list", 0, 0, 0},
		{"[1].filter(x, x > 1).max()", "error: max called on empty list", 0, 0, 0},
	})
	runCompileErrors(t, compileErrors{
		"['a'].sum()":       "found no matching overload for 'sum' applied to 'list(string).()'",
		"[{'a': 1}].min()":  "found no matching overload for 'min' applied to 'list(map(string, int)).()'",
		"[1].indexOf('a')":  "found no matching overload for 'indexOf' applied to 'list(int).(string)'",
		"[1, 'a']":          "expected type 'int' but found 'string'",
		"{'a': 1, 'b': ''}": "expected type 'int' but found 'string'",
	})
}

func TestListsIndexOf(t *testing.T) {
	t.Parallel()
	run(t, []example{
		{ints + ".indexOf(3)", "2", 15, 15, 15},
		{uints + ".lastIndexOf(uint(3))", "2", 21, 21, 21},
		{doubles + ".indexOf(3.0)", "2", 15, 15, 15},
		{bools + ".indexOf(true)", "1", 15, 15, 15},
		{bools + ".lastIndexOf(true)", "3", 15, 15, 15},
		{texts + ".indexOf('x')", "-1", 15, 25, 15},
		{byteses + ".lastIndexOf(bytes('x'))", "-1", 26, 36, 26},
		{durations + ".indexOf(duration('3s'))", "2", 21, 21, 21},
		{timestamps + ".indexOf(timestamp('2011-01-03T00:00:00Z'))", "2", 17, 17, 17},
		// All values inside the elements are counted. Creating a list costs 10, and creating a map costs 30.
		{"[{'k': '0123456789'}, {'k': '0123456789'}].indexOf({'k': ''})", "-1", 102, 102, 102},
		{"[[1], [2]].lastIndexOf([1])", "0", 0, 0, 0},
		{"[].indexOf('a')", "-1", 0, 0, 0},
		// The string functions of cel-go with these names have the same cost model.
		{"'01234567890123456789012345678901234567890123456789'.indexOf('123')", "1", 5, 5, 5},
		{"'01234567890123456789012345678901234567890123456789'.lastIndexOf('123')", "41", 5, 5, 5},
	})
}
