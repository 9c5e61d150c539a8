package library_test

import "testing"

func TestRegex(t *testing.T) {
	t.Parallel()
	run(t, []example{
		{"'abc 123 def 123'.find('123')", "'123'", 2, 2, 2},
		{"'abc 123'.find('[0-9]+')", "'123'", 2, 2, 2},
		{"'abc 123'.find('xyz')", "''", 1, 1, 1},
		{"''.find('^$')", "''", 1, 1, 1},
		{"'abc 123 def 123'.findAll('123')", "['123', '123']", 2, 2, 2},
		{"'abc 123 def 123'.findAll('123', 1)", "['123']", 2, 2, 2},
		{"'abc 123 def 123'.findAll('123', -1)", "['123', '123']", 2, 2, 2},
		{"'abc 123 def 123'.findAll('123', 0)", "[]", 2, 2, 2},
		{"'abc'.findAll('xyz')", "[]", 1, 1, 1},
		{"'abc'.find('a' + '(')", "error: Illegal regex: error parsing regexp: missing closing ): `a(`", 0, 0, 0},
		{"'abc'.findAll('a' + '(', 1)", "error: Illegal regex: error parsing regexp: missing closing ): `a(`", 0, 0, 0},
		{"'abc'.findAll('b' + 'c')", "['bc']", 0, 0, 0},
		{"'abc'.find('(')", "error: error parsing regexp: missing closing ): `(`", 0, 0, 0},
		{"'1, 2, 3, 4'.findAll('[0-9]+').map(x, int(x)).sum()", "10", 0, 0, 0},
	})
}

func TestFormats(t *testing.T) {
	t.Parallel()
	const label = `a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`
	run(t, []example{
		{"format.named('dns1123subdomain')", "optional.none()", 1, 1, 1},
		{"format.named('dns1123Label').hasValue()", "true", 2, 2, 2},
		{"format.named('dns1123Subdomain').value().validate('my-name')", "optional.none()", 34, 34, 17},
		{"format.named('dns1123Label').value().validate('my-name')", "optional.none()", 34, 34, 10},
		{"format.named('dns1123Label').value() == format.named('dns1123Label').value()", "true", 5, 11, 5},
		{"format.dns1123Label() == format.dns1035Label()", "false", 3, 9, 3},
		{"format.dns1123Label().validate('my-name')", "optional.none()", 33, 33, 9},
		{"format.dns1123Label().validate('a b').value()", `["` + label + `"]`, 0, 0, 0},
		{"format.dns1123LabelPrefix().validate('a-').hasValue()", "false", 0, 0, 0},
		{"format.dns1123LabelPrefix().validate('a b-').value()", `["` + label + `"]`, 0, 0, 0},
		{"format.dns1123Subdomain().validate('a.b').hasValue()", "false", 0, 0, 0},
		{"format.dns1123SubdomainPrefix().validate('a.b.-').hasValue()", "false", 0, 0, 0},
		{"format.dns1035Label().validate('1').hasValue()", "true", 0, 0, 0},
		{"format.dns1035LabelPrefix().validate('a-').hasValue()", "false", 0, 0, 0},
		{"format.qualifiedName().validate('a.b/c').hasValue()", "false", 0, 0, 0},
		{"format.qualifiedName().validate('a b').value()", `["name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"]`, 0, 0, 0},
		{"format.labelValue().validate('My-value').hasValue()", "false", 0, 0, 0},
		{"format.labelValue().validate('!').hasValue()", "true", 0, 0, 0},
		{"format.uri().validate('http://example.com').hasValue()", "false", 66, 66, 562},
		{"format.uri().validate('a')", `optional.of(['parse "a": invalid URI for request'])`, 33, 33, 281},
		{"format.uuid().validate('123e4567-e89b-12d3-a456-426614174000').hasValue()", "false", 0, 0, 0},
		{"format.uuid().validate('x').value()", "['does not match the UUID format']", 0, 0, 0},
		{"format.byte().validate('aGVsbG8=').hasValue()", "false", 0, 0, 0},
		{"format.byte().validate('aGVsbG8').value()", "['invalid base64']", 0, 0, 0},
		{"format.date().validate('2021-01-01').hasValue()", "false", 0, 0, 0},
		{"format.date().validate('2020-01-32').value()", "['invalid date']", 0, 0, 0},
		{"format.datetime().validate('2021-01-01T00:00:00Z').hasValue()", "false", 0, 0, 0},
		{"format.datetime().validate('2020-01-32T00:00:00Z').value()", "['invalid datetime']", 0, 0, 0},
	})
	runCompileErrors(t, compileErrors{
		"format.dns1123Label.validate('a')": "undeclared reference to 'format' (in container '')",
		"format.nope().validate('a')":       "undeclared reference to 'format' (in container '')",
	})
}

// TestStrings checks the costs of the cel-go string functions whose costs this package redefines.
func TestStrings(t *testing.T) {
	t.Parallel()
	run(t, []example{
		{"'ABCDEFGHIJ abcdefghij'.lowerAscii()", "'abcdefghij abcdefghij'", 3, 3, 3},
		{"'ABCDEFGHIJ abcdefghij'.lowerAscii() == 'abcdefghij ABCDEFGHIJ'.lowerAscii()", "true", 7, 9, 9},
		{"'ABCDEFGHIJ abcdefghij'.upperAscii()", "'ABCDEFGHIJ ABCDEFGHIJ'", 3, 3, 3},
		{"strings.quote('ABCDEFGHIJ abcdefghij')", `'"ABCDEFGHIJ abcdefghij"'`, 3, 3, 3},
		{"strings.quote('ABCDEFGHIJ abcdefghij') == strings.quote('ABCDEFGHIJ abcdefghij')", "true", 7, 11, 9},
		{"'abc 123 def 123'.replace('123', '456')", "'abc 456 def 456'", 3, 3, 3},
		{"'abc'.replace('', 'x')", "'xaxbxcx'", 1, 1, 1},
		{"'abc 123 def 123'.replace('123', '')", "'abc  def '", 3, 3, 3},
		{"'abc 123 def 123'.replace('123', '456', 1)", "'abc 456 def 123'", 3, 3, 3},
		{"'abc 123 def 123'.split(' ')", "['abc', '123', 'def', '123']", 3, 3, 3},
		{"'abc 123 def 123'.split(' ', 1)", "['abc 123 def 123']", 3, 3, 3},
		{"'at most ' + string(3)", "'at most 3'", 2, 4, 2},
		{"'at most ' + string(2.5)", "'at most 2.5'", 2, 5, 3},
		{"'it is ' + string(true)", "'it is true'", 2, 3, 2},
		{"'abc 123 def 123'.substring(5)", "'23 def 123'", 2, 2, 2},
		{"'abc 123 def 123'.substring(5, 8)", "'23 '", 2, 2, 2},
		{"'  abc 123 def 123  '.trim()", "'abc 123 def 123'", 2, 2, 2},
		{"['aa', 'bb', 'cc', 'd', 'e', 'f', 'g', 'h', 'i', 'j'].join(' ')", "'aa bb cc d e f g h i j'", 11, 23, 15},
		{"['aa', 'bb', 'cc', 'd', 'e', 'f', 'g', 'h', 'i', 'j'].join()", "'aabbccdefghij'", 10, 22, 13},
	})
	runCompileErrors(t, compileErrors{
		"'a'.reverse()": "found no matching overload for 'reverse' applied to 'string.()'",
	})
}
