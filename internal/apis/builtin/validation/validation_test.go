package validation_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/apitest/alloctest"
	"mainstay.dev/mainstay/internal/feature"
)

func errs(t testing.TB, rules func(validation.Field)) string {
	t.Helper()
	var lines []string
	for _, err := range validation.NewValidator(feature.Defaults()).Validate(t.Context(), rules) {
		lines = append(lines, err.Error())
	}
	return strings.Join(lines, "\n")
}

func TestPaths(t *testing.T) {
	t.Parallel()
	got := errs(t, func(f validation.Field) {
		spec := f.Child("spec")
		ports := spec.Child("ports")
		ports.Index(3).Child("name").Required("")
		spec.Child("selector").Key("a/b").Invalid("x", "is bad")
		f.Forbidden("all of it")
		validation.OneOf(ports.Index(0).Child("protocol"), corev1.Protocol("ICMP"), corev1.ProtocolTCP, corev1.ProtocolUDP)
	})
	want := "spec.ports[3].name: Required value\n" +
		"spec.selector[a/b]: Invalid value: \"x\": is bad\n" +
		"<nil>: Forbidden: all of it\n" +
		"spec.ports[0].protocol: Unsupported value: \"ICMP\": supported values: \"TCP\", \"UDP\""
	if got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// TestReusedMemory checks that reused memory contains no data of the previously validated object, and that
// the errors of this object do not change when the memory is reused.
func TestReusedMemory(t *testing.T) {
	t.Parallel()
	v := validation.NewValidator(feature.Gates{})
	first := v.Validate(t.Context(), func(f validation.Field) { f.Child("a").Child("b").Required("") })
	second := v.Validate(t.Context(), func(f validation.Field) { f.Child("c").Required("") })
	if len(first) != 1 || first[0].Field != "a.b" || len(second) != 1 || second[0].Field != "c" {
		t.Errorf("faults %v and %v, want one for a.b and one for c", first, second)
	}
}

// TestViolates checks that Violates neither adds nor discards reported errors.
func TestViolates(t *testing.T) {
	t.Parallel()
	got := errs(t, func(f validation.Field) {
		f.Child("a").Required("")
		if f.Violates(func(f validation.Field) { f.Child("b").DNSLabel("b") }) {
			t.Error("Violates returned true for a valid label")
		}
		if !f.Violates(func(f validation.Field) { f.Child("b").DNSLabel("B") }) {
			t.Error("Violates returned false for an invalid label")
		}
		f.Child("c").Required("")
	})
	if want := "a: Required value\nc: Required value"; got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestFormats(t *testing.T) {
	t.Parallel()
	for value, good := range map[string]bool{"*.a": true, "*.a.b": true, "a.b": false, "*": false, "*.": false, "*.*.a": false, "*.A": false,
		"*." + strings.Repeat("a.", 125) + "a": true, "*." + strings.Repeat("a.", 126): false, "*." + strings.Repeat("a.", 125) + "ab": false} {
		if got := errs(t, func(f validation.Field) { f.WildcardSubdomain(value) }) == ""; got != good {
			t.Errorf("WildcardSubdomain(%q) is %t", value, got)
		}
	}
	for value, good := range map[string]bool{"a": true, "": true, ".": false, "..": false, "a/b": false, "a%b": false, "A B": true} {
		if got := errs(t, func(f validation.Field) { f.PathSegment(value) }) == ""; got != good {
			t.Errorf("PathSegment(%q) is %t", value, got)
		}
	}
	if got := errs(t, func(f validation.Field) { f.Child("name").RequiredPathSegment("") }); got != "name: Required value" {
		t.Errorf("an empty path segment: %q", got)
	}
}

func TestLooseLabelSelector(t *testing.T) {
	t.Parallel()
	bad := func(key string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: metav1.LabelSelectorOpIn, Values: []string{"-"}}}}
	}
	if got := errs(t, func(f validation.Field) { f.LooseLabelSelector(bad("a")) }); got != "" {
		t.Errorf("a bad value: %q", got)
	}
	if got := errs(t, func(f validation.Field) { f.LooseLabelSelector(bad("")) }); got == "" {
		t.Error("a bad key is accepted")
	}
}

func TestErrorCountIsBounded(t *testing.T) {
	t.Parallel()
	errs := validation.NewValidator(feature.Gates{}).Validate(t.Context(), func(f validation.Field) {
		for i := range 100_000 {
			f.Index(i).Required("")
		}
	})
	if len(errs) != 1000 {
		t.Errorf("%d errors, want 1000", len(errs))
	}
}

func TestDuplicates(t *testing.T) {
	t.Parallel()
	for _, capacity := range []int{0, 5, 16, 17, 100} {
		seen := validation.NewDuplicates[string](capacity)
		for round := range 2 {
			for i := range 100 {
				if has, again := seen.Has(fmt.Sprint(i)), seen.IsDuplicate(fmt.Sprint(i)); has != again || again != (round == 1) {
					t.Fatalf("capacity %d: element %d in round %d: Has is %t, IsDuplicate is %t", capacity, i, round, has, again)
				}
			}
		}
	}
}

func TestDNSLabel(t *testing.T) {
	t.Parallel()
	for value, good := range map[string]bool{
		"": false, "a": true, "a-b": true, "-a": false, "a-": false, "A": false, "a.b": false, "ä": false, "0": true,
		strings.Repeat("a", 63): true, strings.Repeat("a", 64): false,
	} {
		if got := errs(t, func(f validation.Field) { f.DNSLabel(value) }) == ""; got != good {
			t.Errorf("DNSLabel(%q) is %t", value, got)
		}
	}
}

// TestValidObjectsDoNotAllocate checks that validating a valid object does not allocate memory.
func TestValidObjectsDoNotAllocate(t *testing.T) {
	v := validation.NewValidator(feature.Defaults())
	ports := make([]corev1.ServicePort, 10)
	for i := range ports {
		ports[i] = corev1.ServicePort{Name: "port", Port: int32(i + 1), Protocol: corev1.ProtocolTCP}
	}
	labels := map[string]string{"app": "web", "tier": "front"}
	alloctest.None(t, "Service", func() {
		errs := v.Validate(t.Context(), func(f validation.Field) {
			seen := validation.NewDuplicates[int32](len(ports))
			for i := range ports {
				at := f.Child("spec").Child("ports").Index(i)
				at.Child("name").DNSLabel(ports[i].Name)
				at.Child("port").PortNumber(ports[i].Port)
				validation.OneOf(at.Child("protocol"), ports[i].Protocol, corev1.ProtocolSCTP, corev1.ProtocolTCP)
				if seen.IsDuplicate(ports[i].Port) {
					at.Duplicate(ports[i].Port)
				}
			}
			f.Child("spec").Child("selector").Labels(labels)
			f.Child("spec").Child("externalIPs").Index(0).IP("192.0.2.1")
		})
		if len(errs) > 0 {
			t.Fatal(errs)
		}
	})
}
