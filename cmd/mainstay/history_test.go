package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"mainstay.dev/mainstay/test/testserver"
)

var errExists = errors.New("the object still exists")

// historyTest is a test with a server that has two ConfigMaps in the namespace shop.
type historyTest struct {
	*testing.T
	server     *testserver.Server
	admin      *kubernetes.Clientset
	kubeconfig string
	// prepared is a point in time after the creation of the objects, as an argument of a command.
	prepared string
}

func newHistoryTest(t *testing.T) *historyTest {
	t.Helper()
	s := testserver.New(t, testserver.Options{Dir: filepath.Join(t.TempDir(), "data")})
	h := &historyTest{T: t, server: s, admin: clientOf(t, s), kubeconfig: "--kubeconfig=" + filepath.Join(s.Dir(), "admin.kubeconfig")}
	if _, err := h.admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	owner := h.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Data: map[string]string{"x": "1"}})
	last := h.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "b", OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "a", UID: owner.UID}}}})
	h.prepared = "rv/" + last.ResourceVersion
	return h
}

func (h *historyTest) create(m *corev1.ConfigMap) *corev1.ConfigMap {
	h.Helper()
	created, err := h.admin.CoreV1().ConfigMaps("shop").Create(h.Context(), m, metav1.CreateOptions{})
	if err != nil {
		h.Fatal(err)
	}
	return created
}

func (h *historyTest) get(name string) *corev1.ConfigMap {
	h.Helper()
	m, err := h.admin.CoreV1().ConfigMaps("shop").Get(h.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		h.Fatal(err)
	}
	return m
}

func (h *historyTest) patch(name, patch string) {
	h.Helper()
	if _, err := h.admin.CoreV1().ConfigMaps("shop").Patch(h.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		h.Fatal(err)
	}
}

// run runs a command and returns its output. It reports an error unless the exit code is code.
func (h *historyTest) run(code int, args ...string) string {
	h.Helper()
	var out, errs bytes.Buffer
	if got := run(append(args, h.kubeconfig), &out, &errs, process{}); got != code {
		h.Errorf("%q: exit code %d, want %d: %s%s", args, got, code, out.String(), errs.String())
	}
	return out.String() + errs.String()
}

// expect checks that a text contains all parts.
func (h *historyTest) expect(text string, parts ...string) {
	h.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			h.Errorf("the output has no %q:\n%s", part, text)
		}
	}
}

// TestHistoryCommands prints changes, differences and earlier states.
func TestHistoryCommands(t *testing.T) {
	t.Parallel()
	h := newHistoryTest(t)
	h.patch("a", `{"data":{"x":"2"}}`)
	h.expect(h.run(0, "history", "cm/a", "-n", "shop"), "Created", "Updated", "data.x", "kubernetes-admin")
	h.expect(h.run(0, "history", "configmap", "a", "-n", "shop", "--diff", "--since=1h"), "-  x: \"1\"\n+  x: \"2\"\n", "--- a/configmaps/a")
	h.expect(h.run(0, "history", "-n", "shop", "-o", "json"), `"fieldManager"`)
	h.expect(h.run(0, "history", "-A", "--user=nobody"), "no changes")
	h.expect(h.run(0, "diff", "-n", "shop", "--since="+h.prepared), "-  x: \"1\"\n+  x: \"2\"\n")
	h.patch("a", `{"data":{"x":"1"}}`)
	h.expect(h.run(0, "diff", "cm/a", "-n", "shop", "--since="+h.prepared), "no differences")
	h.expect(h.run(0, "at", h.prepared), "resourceVersion "+strings.TrimPrefix(h.prepared, "rv/"))
	for want, args := range map[string][]string{
		"has no resource":                      {"history", "nothing/a"},
		"KIND/NAME":                            {"history", "a"},
		"must be json":                         {"history", "-o", "xml"},
		"requires --to":                        {"undo", "cm/a"},
		"--since is required":                  {"undo"},
		"must be server":                       {"undo", "--since=1m", "--dry-run=client"},
		"--yes is required":                    {"undo", "-n", "shop", "--since=rv/1"},
		"a time is":                            {"at"},
		"the time is \"yesterday\"":            {"at", "yesterday"},
		"the time is \"2026-11-27 14:02:00Z\"": {"at", "2026-11-27 14:02:00Z"},
		"the time is \"rv/1/api?\"":            {"at", "rv/1/api?"},
		"the time is \"rv/1#\"":                {"at", "rv/1#"},
		"the time is \"%zz\"":                  {"at", "%zz"},
		"--to is \"rv/1/api?\"":                {"undo", "cm/a", "-n", "shop", "--to=rv/1/api?"},
	} {
		code := 2
		if want == "has no resource" {
			code = 1
		}
		h.expect(h.run(code, args...), want)
	}
}

// TestUndo undoes changes of an object, of a user and of a deleted namespace.
func TestUndo(t *testing.T) {
	t.Parallel()
	h := newHistoryTest(t)
	owner := h.get("a").UID
	h.patch("a", `{"data":{"x":"2"},"metadata":{"labels":{"team":"x"}}}`)
	h.expect(h.run(0, "undo", "cm/a", "-n", "shop", "--to="+h.prepared, "--dry-run=server"), "dry run", "-  x: \"2\"\n+  x: \"1\"\n")
	if got := h.get("a").Data["x"]; got != "2" {
		t.Errorf("after a dry run: %s", got)
	}
	h.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "new"}})
	h.expect(h.run(0, "undo", "-n", "shop", "--since="+h.prepared, "--dry-run=server"), "configmaps/new -n shop deleted (dry run)")
	if h.get("new") == nil {
		t.Error("a dry run deleted an object")
	}
	h.run(0, "undo", "cm/a", "-n", "shop", "--to="+h.prepared, "--yes")
	if got := h.get("a"); got.Data["x"] != "1" || len(got.Labels) != 0 || got.UID != owner {
		t.Errorf("after undo: %+v", got)
	}
	h.expect(h.run(0, "undo", "cm/a", "-n", "shop", "--to="+h.prepared, "--yes"), "nothing to undo")

	var u planWriter
	var err error
	if u.target, err = newAPIClient(strings.TrimPrefix(h.kubeconfig, "--kubeconfig=")); err != nil {
		t.Fatal(err)
	}
	planned := map[string]any{"metadata": map[string]any{"name": "a"}, "data": map[string]any{"x": "0"}}
	if err := u.replace(t.Context(), "/api/v1/namespaces/shop/configmaps/a", planned, planned); !errors.Is(err, errChanged) || h.get("a").Data["x"] != "1" {
		t.Errorf("write over an object that has changed since the plan: %v", err)
	}

	// Undo the deletion of a namespace with an owner and its dependent.
	if err := h.admin.CoreV1().Namespaces().Delete(t.Context(), "shop", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	testserver.Eventually(t, time.Minute, func() error {
		_, err := h.admin.CoreV1().Namespaces().Get(t.Context(), "shop", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errExists
	})
	h.expect(h.run(0, "undo", "-A", "--since="+h.prepared, "--yes"), "namespaces/shop created again", "configmaps/b -n shop created again")
	if a, b := h.get("a"), h.get("b"); a == nil || b == nil || a.UID != owner || b.OwnerReferences[0].UID != owner || a.Data["x"] != "1" {
		t.Fatalf("restored: %+v, %+v", a, b)
	}
	// The garbage collector processes owner references in order. When it has deleted c, it has also processed
	// b, whose owner has been recreated.
	h.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c", OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "missing", UID: "missing"}}}})
	testserver.Eventually(t, time.Minute, func() error {
		if h.get("c") != nil {
			return errExists
		}
		return nil
	})
	if h.get("b") == nil {
		t.Error("the dependent of a restored owner was collected")
	}

	// Undo deletes created objects. Later changes of other users are conflicts.
	at := "rv/" + h.get("b").ResourceVersion
	h.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "new"}})
	h.patch("a", `{"data":{"x":"3"}}`)
	h.expect(h.run(0, "undo", "-n", "shop", "--since="+at, "--user=nobody", "--yes"), "nothing to undo")
	h.run(0, "undo", "-n", "shop", "--since="+at, "--yes")
	if h.get("new") != nil || h.get("a").Data["x"] != "1" {
		t.Errorf("after undo of a set: %+v, %+v", h.get("new"), h.get("a"))
	}
}

// TestRestoreFrom checks the query parameter that preserves the UID of a deleted object.
func TestRestoreFrom(t *testing.T) {
	t.Parallel()
	h := newHistoryTest(t)
	was := h.get("a")
	if err := h.admin.CoreV1().ConfigMaps("shop").Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	restore := func(name, revision string) (*corev1.ConfigMap, error) {
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop"}}
		created := &corev1.ConfigMap{}
		err := h.admin.CoreV1().RESTClient().Post().Namespace("shop").Resource("configmaps").Param("restoreFrom", revision).Body(m).Do(t.Context()).Into(created)
		return created, err
	}
	for _, bad := range []string{"x", "-1", "0", "99999999"} {
		if _, err := restore("a", bad); !apierrors.IsBadRequest(err) {
			t.Errorf("restore from %s: %v", bad, err)
		}
	}
	if _, err := restore("other", was.ResourceVersion); !apierrors.IsBadRequest(err) {
		t.Errorf("restore an object that did not exist: %v", err)
	}
	created, err := restore("a", was.ResourceVersion)
	if err != nil || created.UID != was.UID || !created.CreationTimestamp.Equal(&was.CreationTimestamp) {
		t.Errorf("restored: %+v, %v", created, err)
	}
	if _, err := restore("a", was.ResourceVersion); !apierrors.IsAlreadyExists(err) {
		t.Errorf("restore an object that exists: %v", err)
	}
}

// TestHistoryKilled kills a server during writes. It checks that the history contains all acknowledged writes
// with their origins.
func TestHistoryKilled(t *testing.T) {
	t.Parallel()
	s := testserver.New(t, testserver.Options{Dir: filepath.Join(t.TempDir(), "data")})
	acknowledged := map[string]bool{}
	for round := range 4 {
		admin := clientOf(t, s)
		name := fmt.Sprintf("m%d", round)
		m, err := admin.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		acknowledged[m.ResourceVersion] = true
		for n := range 150 {
			m.Data = map[string]string{"n": fmt.Sprint(n)}
			if m, err = admin.CoreV1().ConfigMaps("default").Update(t.Context(), m, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			acknowledged[m.ResourceVersion] = true
		}
		s.Kill()
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	client, err := newAPIClient(filepath.Join(s.Dir(), "admin.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	changes, err := (&historyClient{apiClient: client, namespace: "default"}).changes(t.Context(), nil, url.Values{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range changes {
		if acknowledged[changes[i].Revision] && changes[i].User == "" {
			t.Errorf("the change %s has no user", changes[i].Name)
		}
		delete(acknowledged, changes[i].Revision)
	}
	if len(acknowledged) > 0 {
		t.Errorf("%d acknowledged writes are missing in the history", len(acknowledged))
	}
}
