package pki

import (
	"maps"
	"slices"
	"testing"
)

// TestSet checks that a stored set is opened unchanged, and that the sets of two control planes trust different
// certificates.
func TestSet(t *testing.T) {
	t.Parallel()
	first, err := OpenSet("one", nil)
	if err != nil {
		t.Fatal(err)
	}
	again, err := OpenSet("one", first.Files())
	if err != nil {
		t.Fatal(err)
	}
	if !again.Clients.cert.Equal(first.Clients.cert) || !again.FrontProxies.cert.Equal(first.FrontProxies.cert) {
		t.Error("an authority has changed")
	}
	if !slices.Equal(slices.Sorted(maps.Keys(again.Files())), slices.Sorted(maps.Keys(first.Files()))) {
		t.Errorf("the files have changed: %v", slices.Sorted(maps.Keys(again.Files())))
	}
	other, err := OpenSet("two", nil)
	if err != nil {
		t.Fatal(err)
	}
	if other.Clients.cert.Subject.String() == first.Clients.cert.Subject.String() {
		t.Error("the authorities have the same subject")
	}
	cert, _, err := first.Clients.Issue(leafLifetime, "user")
	if err != nil {
		t.Fatal(err)
	}
	if !again.Clients.Issued(cert) || other.Clients.Issued(cert) {
		t.Error("a certificate is not valid in its control plane, or is valid in another one")
	}
	broken := first.Files()
	delete(broken, "ca.key")
	if _, err := OpenSet("one", broken); err == nil {
		t.Error("an authority without its key was opened")
	}
}
