package library

import (
	"errors"
	"strings"

	"github.com/blang/semver/v4"
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// Semver returns the library of semantic versions. If the second argument is true, a leading "v" and leading
// zeros in numbers are ignored, and missing minor and patch numbers count as 0.
//
//	semver(<string>) <Semver>, semver(<string>, <bool>) <Semver>    an error for an invalid version
//	isSemver(<string>) <bool>, isSemver(<string>, <bool>) <bool>
//	<Semver>.major() <int>                  also minor and patch
//	<Semver>.compareTo(<Semver>) <int>      -1, 0 or 1, by precedence
//	<Semver>.isLessThan(<Semver>) <bool>    also isGreaterThan
func Semver() cel.EnvOption {
	versions := &kind[semver.Version]{
		name:  "Semver",
		typ:   cel.ObjectType(semverTypeName),
		equal: semver.Version.EQ,
	}
	read := func(s string, normalize bool) ref.Val {
		v, err := parseVersion(s, normalize)
		if err != nil {
			return types.WrapErr(err)
		}
		return versions.wrap(v)
	}
	is := func(s string, normalize bool) ref.Val {
		_, err := parseVersion(s, normalize)
		return types.Bool(err == nil)
	}
	number := func(name string, f func(semver.Version) uint64) cel.EnvOption {
		return cel.Function(name, cel.MemberOverload("semver_"+name, signature(versions.typ), cel.IntType,
			unary(func(v semver.Version) ref.Val { return types.Int(f(v)) })))
	}
	options := []cel.EnvOption{
		cel.Function("semver",
			cel.Overload("string_to_semver", signature(cel.StringType), versions.typ, unary(func(s string) ref.Val { return read(s, false) })),
			cel.Overload("string_bool_to_semver", signature(cel.StringType, cel.BoolType), versions.typ, binary(read))),
		cel.Function("isSemver",
			cel.Overload("is_semver_string", signature(cel.StringType), cel.BoolType, unary(func(s string) ref.Val { return is(s, false) })),
			cel.Overload("is_semver_string_bool", signature(cel.StringType, cel.BoolType), cel.BoolType, binary(is))),
		number("major", func(v semver.Version) uint64 { return v.Major }),
		number("minor", func(v semver.Version) uint64 { return v.Minor }),
		number("patch", func(v semver.Version) uint64 { return v.Patch }),
	}
	return cel.Lib(library{name: "kubernetes.Semver", options: append(options, comparisons("semver", versions.typ, semver.Version.Compare)...)})
}

func parseVersion(s string, normalize bool) (semver.Version, error) {
	if !normalize {
		return semver.Parse(s)
	}
	// The third part contains the patch number and the suffix, which may contain dots.
	parts := strings.SplitN(strings.TrimPrefix(s, "v"), ".", 3)
	if last := parts[len(parts)-1]; len(parts) < 3 && strings.ContainsAny(last, "+-") {
		return semver.Version{}, errors.New("short version cannot contain PreRelease/Build meta data")
	}
	for i, part := range parts {
		parts[i] = withoutLeadingZeros(part)
	}
	for len(parts) < 3 {
		parts = append(parts, "0")
	}
	return semver.Parse(strings.Join(parts, "."))
}

// withoutLeadingZeros removes leading zeros. It keeps one zero if no digit follows.
func withoutLeadingZeros(part string) string {
	for len(part) > 1 && part[0] == '0' && '0' <= part[1] && part[1] <= '9' {
		part = part[1:]
	}
	return part
}
