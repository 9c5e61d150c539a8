package library_test

import "testing"

func TestQuantity(t *testing.T) {
	t.Parallel()
	run(t, []example{
		{"quantity('12Mi')", "quantity('12288Ki')", 1, 1, 1},
		{"quantity('10Mo')", "error: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'", 0, 0, 0},
		{"quantity('10Mm')", "error: unable to parse quantity's suffix", 0, 0, 0},
		{"quantity('200K')", "error: unable to parse quantity's suffix", 0, 0, 0},
		{"isQuantity('20')", "true", 1, 1, 1},
		{"isQuantity('1e999999999')", "false", 0, 0, 0},
		{"quantity('1e-999999999')", "error: a quantity may have at most 128 characters and an exponent of at most 128", 0, 0, 0},
		{"isQuantity('1.3Gi')", "true", 1, 1, 1},
		{"isQuantity('1,3G')", "false", 1, 1, 1},
		{"isQuantity('100000000000000000000000')", "true", 3, 3, 3},

		{"quantity('200M') == quantity('0.2G')", "true", 3, 3, 3},
		{"quantity('200M') == quantity('0.3G')", "false", 3, 3, 3},
		{"quantity('2M') == quantity('0.002G') && quantity('2000k') == quantity('2M')", "true", 3, 6, 6},
		{"quantity('1') == dyn('1')", "error: no such overload", 0, 0, 0},
		{"quantity('50M').isLessThan(quantity('50Mi'))", "true", 3, 3, 3},
		{"quantity('100M').isLessThan(quantity('50M'))", "false", 3, 3, 3},
		{"quantity('50Mi').isGreaterThan(quantity('50M'))", "true", 3, 3, 3},
		{"quantity('200M').compareTo(quantity('0.2G'))", "0", 3, 3, 3},
		{"quantity('50M').compareTo(quantity('50Mi'))", "-1", 3, 3, 3},
		{"quantity('50Mi').compareTo(quantity('50M'))", "1", 3, 3, 3},
		{"quantity('99999999999999999999G').isGreaterThan(quantity('1'))", "true", 5, 5, 5},

		{"quantity('50k').add(quantity('20')) == quantity('50.02k')", "true", 5, 5, 5},
		{"quantity('50.02k') == quantity('50k').add(quantity('20'))", "true", 5, 5, 5},
		{"quantity('50k').sub(quantity('20')) == quantity('49.98k')", "true", 5, 5, 5},
		{"quantity('50k').sub(20) == quantity('49980')", "true", 4, 4, 4},
		{"quantity('50k').add(20).sub(quantity('100k')).asInteger()", "-49980", 5, 5, 5},
		{"quantity('50k').add(20).sub(quantity('100k')).sub(-50000).asInteger() > 0", "true", 7, 7, 7},
		// The operands of an addition are not modified, regardless of their size.
		{"[quantity('99999999999999999999G')].all(q, q.add(1) != q && q.sub(q) == quantity('0') && q == quantity('99999999999999999999G'))", "true", 0, 0, 0},

		{"quantity('50k').asInteger() > 0", "true", 3, 3, 3},
		{"quantity('9999999999999999999999999999999999999G').asInteger()", "error: cannot convert value to integer", 0, 0, 0},
		{"quantity('50').isInteger()", "true", 2, 2, 2},
		{"quantity('50m').isInteger()", "false", 2, 2, 2},
		{"quantity('9999999999999999999999999999999999999G').isInteger()", "false", 5, 5, 5},
		{"quantity('50.703k').asApproximateFloat()", "50703.0", 2, 2, 2},
		{"sign(quantity('-1'))", "-1", 2, 2, 2},
		{"sign(quantity('0'))", "0", 2, 2, 2},
	})
	runCompileErrors(t, compileErrors{
		"isQuantity([1, 2, 3])":  "found no matching overload for 'isQuantity' applied to '(list(int))'",
		"quantity('1').add('1')": "found no matching overload for 'add' applied to 'kubernetes.Quantity.(string)'",
		"quantity('1').sign()":   "found no matching overload for 'sign' applied to 'kubernetes.Quantity.()'",
		"quantity('1').mul(2)":   "undeclared reference to 'mul' (in container '')",
		"quantity('1') + 1":      "found no matching overload for '_+_' applied to '(kubernetes.Quantity, int)'",
	})
}

func TestSemver(t *testing.T) {
	t.Parallel()
	run(t, []example{
		{"semver('1.2.3')", "semver('1.2.3')", 1, 1, 1},
		{"semver('1234.56789012345.67890123456789')", "semver('1234.56789012345.67890123456789')", 4, 4, 4},
		{"semver('v1.0')", "error: No Major.Minor.Patch elements found", 0, 0, 0},
		{"semver('v1.0.0')", `error: Invalid character(s) found in major number "v1"`, 0, 0, 0},
		{"semver('1.0-alpha', true)", "error: short version cannot contain PreRelease/Build meta data", 0, 0, 0},
		{"semver('', true)", `error: strconv.ParseUint: parsing "": invalid syntax`, 0, 0, 0},
		{"isSemver('1.2.3-beta.1+build.1')", "true", 2, 2, 2},
		{"isSemver('1234.56789012345.67890123456789')", "true", 4, 4, 4},
		{"isSemver('')", "false", 0, 0, 0},
		{"isSemver('v1.0.0')", "false", 1, 1, 1},
		{"isSemver('01.01.01')", "false", 1, 1, 1},
		{"isSemver('1.1')", "false", 1, 1, 1},
		{"isSemver('1', false)", "false", 1, 1, 1},
		{"isSemver('v1.0.0', true)", "true", 1, 1, 1},
		{"isSemver('01.01.01', true)", "true", 1, 1, 1},
		{"isSemver('1', true)", "true", 1, 1, 1},
		{"isSemver(' 1.0.0', true)", "false", 1, 1, 1},
		{"isSemver('1. 0.0', true)", "false", 1, 1, 1},
		{"isSemver('1.0.0 ', true)", "false", 1, 1, 1},
		{"semver('v01.01', true) == semver('1.1.0')", "true", 3, 3, 3},
		{"semver('1.00.000-0a', true) == semver('1.0.0-0a')", "true", 0, 0, 0},
		{"semver('1.0.0+a') == semver('1.0.0+b')", "true", 3, 3, 3},
		{"semver('1.2.3') == semver('1.0.0')", "false", 3, 3, 3},
		{"semver('1.0.0').isLessThan(semver('1.2.3'))", "true", 3, 3, 3},
		{"semver('1.0.0').isLessThan(semver('1.0.0'))", "false", 3, 3, 3},
		{"semver('1.2.3').isGreaterThan(semver('1.2.3-rc.1'))", "true", 3, 3, 3},
		{"semver('1.2.3').compareTo(semver('1.2.3'))", "0", 3, 3, 3},
		{"semver('1.0.0').compareTo(semver('1.2.3'))", "-1", 3, 3, 3},
		{"semver('1.2.3').compareTo(semver('1.0.0'))", "1", 3, 3, 3},
		{"semver('1.2.3').major()", "1", 2, 2, 2},
		{"semver('1.2.3').minor()", "2", 2, 2, 2},
		{"semver('1.2.3').patch()", "3", 2, 2, 2},
	})
	runCompileErrors(t, compileErrors{
		"isSemver([1, 2, 3])":                      "found no matching overload for 'isSemver' applied to '(list(int))'",
		"semver('1.0.0').compareTo(quantity('1'))": "found no matching overload for 'compareTo' applied to 'kubernetes.Semver.(kubernetes.Quantity)'",
	})
}
