package endpoints_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/endpoints"
	"mainstay.dev/mainstay/internal/request"
)

// mutating is an admission plugin that calls a function.
type mutating func(context.Context, *admission.Attributes) error

func (mutating) Name() string                     { return "Mutating" }
func (mutating) Handles(admission.Operation) bool { return true }
func (m mutating) Mutate(ctx context.Context, a *admission.Attributes) error {
	return m(ctx, a)
}

// changing returns a chain with a plugin that changes the object or, if replace is set, replaces it with a
// changed copy.
func changing(replace bool, change func(codec.Object)) admission.Chain {
	return admission.Chain{mutating(func(_ context.Context, a *admission.Attributes) error {
		obj, ok := a.Object.(codec.Object)
		if !ok {
			return nil
		}
		if replace {
			obj = obj.DeepCopyObject().(codec.Object)
			a.Object = obj
		}
		change(obj)
		return nil
	})}
}

// writes returns requests that write the object a. They must be sent in this order.
func writes(resource, head string) []string {
	return []string{
		"POST " + resource + `|{` + head + `"metadata":{"name":"a"}}|` + jsonType,
		"PUT " + resource + "/a" + `|{` + head + `"metadata":{"name":"a","labels":{"l":"1"}}}|` + jsonType,
		"PATCH " + resource + "/a" + `|{"metadata":{"labels":{"l":"2"}}}|` + mergeT,
		"PATCH " + resource + "/a?fieldManager=m&force=true" + `|{` + head + `"metadata":{"name":"a","labels":{"l":"3"}}}|` + applyT,
	}
}

const (
	inGroup    = "/apis/example.com/v1/namespaces/a/"
	coreHead   = `"apiVersion":"v1","kind":"ConfigMap",`
	widgetHead = `"apiVersion":"example.com/v1","kind":"Widget",`
)

func (a *api) write(line string) answer {
	a.Helper()
	parts := strings.Split(line, "|")
	return a.must(parts[0], parts[1], "Content-Type", parts[2])
}

func (w answer) metadata() metav1.ObjectMeta {
	w.t.Helper()
	var obj metav1.PartialObjectMetadata
	w.object(&obj)
	return obj.ObjectMeta
}

// TestAdmissionReplaces checks that, if an admission plugin replaces the object, the replacement is stored.
func TestAdmissionReplaces(t *testing.T) {
	t.Parallel()
	for _, lines := range [][]string{writes(inA+"configmaps", coreHead), writes(inGroup+"widgets", widgetHead)} {
		n := 0
		a := newAPI(t, endpoints.Config{Admission: changing(true, func(obj codec.Object) {
			n++
			obj.SetAnnotations(map[string]string{"n": fmt.Sprint(n)})
		})})
		for _, line := range lines {
			if got := a.write(line).metadata().Annotations["n"]; got != fmt.Sprint(n) {
				t.Errorf("%s: annotation %q, want %d", line, got, n)
			}
		}
	}
}

// TestAdmissionSeesOptions checks that plugins receive the options of the operation. A patch is an update
// or a creation.
func TestAdmissionSeesOptions(t *testing.T) {
	t.Parallel()
	var seen []string
	a := newAPI(t, endpoints.Config{Admission: admission.Chain{mutating(func(_ context.Context, a *admission.Attributes) error {
		manager := ""
		switch options := a.Options.(type) {
		case *metav1.CreateOptions:
			manager = options.FieldManager
		case *metav1.UpdateOptions:
			manager = options.FieldManager
		case *metav1.DeleteOptions:
			manager = fmt.Sprint(*options.GracePeriodSeconds)
		case nil:
			seen = append(seen, string(a.Operation))
			return nil
		}
		seen = append(seen, fmt.Sprint(a.Operation, " ", a.Options.GetObjectKind().GroupVersionKind(), " ", manager))
		return nil
	})}})
	a.must("POST "+inA+"configmaps?fieldManager=m", `{"metadata":{"name":"a"}}`)
	a.must("PUT "+inA+"configmaps/a?fieldManager=m", `{"metadata":{"name":"a"}}`)
	a.must("PATCH "+inA+"configmaps/a?fieldManager=m", `{}`, "Content-Type", mergeT)
	a.must("PATCH "+inA+"configmaps/b?fieldManager=m", `{`+coreHead+`"metadata":{"name":"b"}}`, "Content-Type", applyT)
	a.must("DELETE "+inA+"configmaps/a", `{"gracePeriodSeconds":3}`)
	a.must("DELETE "+inA+"configmaps?gracePeriodSeconds=4", "")
	a.must("GET "+inA+"pods/x/log", "")
	const meta = " meta.k8s.io/v1, Kind="
	want := []string{
		"CREATE" + meta + "CreateOptions m", "UPDATE" + meta + "UpdateOptions m", "UPDATE" + meta + "UpdateOptions m",
		"CREATE" + meta + "CreateOptions m", "DELETE" + meta + "DeleteOptions 3", "DELETE" + meta + "DeleteOptions 4", "CONNECT",
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestAdmissionSeesVersions checks that a plugin receives the object in the version of the request.
func TestAdmissionSeesVersions(t *testing.T) {
	t.Parallel()
	var seen []string
	a := newAPI(t, endpoints.Config{Admission: admission.Chain{mutating(func(ctx context.Context, a *admission.Attributes) error {
		obj, err := a.ObjectIn(ctx, a.Kind())
		if err != nil {
			return err
		}
		old, err := a.OldIn(ctx, a.Kind())
		if err != nil {
			return err
		}
		seen = append(seen, fmt.Sprintf("%s %T of %T, %T", a.Kind().GroupVersion(), obj, a.Object, old))
		return nil
	})}})
	const one = "/apis/autoscaling/v1/namespaces/a/horizontalpodautoscalers"
	a.must("POST "+one, `{"metadata":{"name":"h"}}`)
	a.must("PATCH "+one+"/h", `{"metadata":{"labels":{"a":"b"}}}`, "Content-Type", mergeT)
	a.must("DELETE "+one+"/h", "")
	want := []string{
		"autoscaling/v1 *v1.HorizontalPodAutoscaler of *v2.HorizontalPodAutoscaler, <nil>",
		"autoscaling/v1 *v1.HorizontalPodAutoscaler of *v2.HorizontalPodAutoscaler, *v1.HorizontalPodAutoscaler",
		"autoscaling/v1 <nil> of <nil>, *v1.HorizontalPodAutoscaler",
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestManagedFieldsAfterAdmission checks that invalid managed fields set by admission are replaced with the
// previous managed fields, and that valid ones are stored.
func TestManagedFieldsAfterAdmission(t *testing.T) {
	t.Parallel()
	bad := []metav1.ManagedFieldsEntry{{Manager: "x", Operation: "Nope", APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{}`)}}}
	good := []metav1.ManagedFieldsEntry{{Manager: "x", Operation: "Update", APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:x":{}}`)}}}
	for _, replace := range []bool{false, true} {
		for _, lines := range [][]string{writes(inA+"configmaps", coreHead), writes(inGroup+"widgets", widgetHead)} {
			fields := bad
			a := newAPI(t, endpoints.Config{Admission: changing(replace, func(obj codec.Object) { obj.SetManagedFields(fields) })})
			for _, line := range lines {
				got := a.write(line)
				if entries := got.metadata().ManagedFields; len(entries) == 1 && entries[0].Operation == "Nope" {
					t.Errorf("%s: invalid managed fields were stored", line)
				}
				if len(got.warnings) != 1 || !strings.HasPrefix(got.warnings[0], ".metadata.managedFields was in an invalid state after admission; "+
					"this could be caused by an outdated mutating admission controller; please fix your requests: ") {
					t.Errorf("%s: warnings %q", line, got.warnings)
				}
			}
			fields = good
			got := a.write(lines[1])
			if entries := got.metadata().ManagedFields; len(entries) != 1 || entries[0].Manager != "x" || len(got.warnings) > 0 {
				t.Errorf("%s: %+v, warnings %q; want what admission has set", lines[1], entries, got.warnings)
			}
		}
	}
}

// TestOwnersAfterAdmission checks that duplicate owner references set by admission or by a patch
// are removed with a warning.
func TestOwnersAfterAdmission(t *testing.T) {
	t.Parallel()
	const warning = ".metadata.ownerReferences contains duplicate entries after mutating admission happens; API server dedups owner references in 1.20+, " +
		"and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: u, u"
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: "n", UID: "u"}
	check := func(line string, got answer) {
		t.Helper()
		if owners := got.metadata().OwnerReferences; len(owners) != 1 {
			t.Errorf("%s: owners %v", line, owners)
		}
		if diff := cmp.Diff([]string{warning}, got.warnings); diff != "" {
			t.Errorf("%s: warnings (-want +got):\n%s", line, diff)
		}
	}
	for _, replace := range []bool{false, true} {
		a := newAPI(t, endpoints.Config{Admission: changing(replace, func(obj codec.Object) {
			obj.SetOwnerReferences([]metav1.OwnerReference{owner, owner, owner})
		})})
		for _, line := range writes(inA+"configmaps", coreHead) {
			check(line, a.write(line))
		}
	}
	a := newAPI(t, endpoints.Config{})
	a.configMap("a", "")
	const one = `{"apiVersion":"v1","kind":"Node","name":"n","uid":"u"}`
	check("a patch", a.must("PATCH "+inA+"configmaps/a", `{"metadata":{"ownerReferences":[`+one+`,`+one+`,`+one+`]}}`, "Content-Type", mergeT))
}

// TestConnectOptions checks that admission receives the options of a connection and can modify them, and
// that a dry run is rejected.
func TestConnectOptions(t *testing.T) {
	t.Parallel()
	a := newAPI(t, endpoints.Config{Admission: admission.Chain{mutating(func(_ context.Context, a *admission.Attributes) error {
		options, ok := a.Object.(*corev1.PodProxyOptions)
		if !ok {
			return fmt.Errorf("connected with %T", a.Object)
		}
		a.Object = &corev1.PodProxyOptions{Path: options.Path + "-" + a.Resource.Version.GVK.Kind}
		return nil
	})}})
	if got := a.must("GET "+inA+"pods/x/log/and/more", ""); got.Body.String() != `log of a/x, tail "/and/more-PodProxyOptions"` {
		t.Errorf("got %s", got.Body)
	}
	a.do("GET "+inA+"pods/x/log?dryRun=All", "").want(400, "dryRun is not supported")
	a.do("GET "+inA+"pods/x/log?bad", "").want(400, "bad is no option")
}

// deciding is an authorizer that returns a fixed decision and records the attributes that it receives.
type deciding struct {
	create    authorizer.Decision
	err       error
	requested *[]authorizer.Attributes
}

func (d deciding) Authorize(_ context.Context, a *authorizer.Attributes) (authorizer.Decision, string, error) {
	*d.requested = append(*d.requested, *a)
	return d.create, "because", d.err
}

// TestCreateOnUpdate checks that an update that creates an object requires permission to create it.
func TestCreateOnUpdate(t *testing.T) {
	t.Parallel()
	const forbidden = `configmaps "a" is forbidden: User "tester" cannot create resource "configmaps" in API group "" in the namespace "a": because`
	creations := map[string][]string{
		"put":   {"PUT " + inA + "configmaps/a", `{"metadata":{"name":"a"}}`, jsonType},
		"apply": {"PATCH " + inA + "configmaps/a?fieldManager=m", `{` + coreHead + `"metadata":{"name":"a"}}`, applyT},
	}
	for name, test := range map[string]struct {
		decision authorizer.Decision
		err      error
		code     int
		message  string
	}{
		"allowed":              {authorizer.DecisionAllow, nil, 201, ""},
		"despite an error":     {authorizer.DecisionAllow, errors.New("trouble"), 201, ""},
		"denied":               {authorizer.DecisionDeny, nil, 403, forbidden},
		"no opinion":           {authorizer.DecisionNoOpinion, nil, 403, forbidden},
		"cannot be determined": {authorizer.DecisionNoOpinion, errors.New("trouble"), 500, "Internal error occurred: trouble"},
	} {
		for how, creation := range creations {
			var requested []authorizer.Attributes
			a := newAPI(t, endpoints.Config{Authorizer: deciding{test.decision, test.err, &requested}})
			a.stores["configmaps"].Strategy.AllowCreateOnUpdate = true
			got := a.do(creation[0], creation[1], "Content-Type", creation[2])
			got.want(test.code, test.message)
			want := []authorizer.Attributes{{User: &request.User{Name: "tester"}, Verb: "create", ResourceRequest: true, APIVersion: "v1", Namespace: "a",
				Resource: "configmaps", Name: "a", Path: inA + "configmaps/a"}}
			if diff := cmp.Diff(want, requested); diff != "" {
				t.Errorf("%s, %s: requests (-want +got):\n%s", name, how, diff)
			}
			if there := a.do("GET "+inA+"configmaps/a", "").Code == 200; there != (test.code == 201) {
				t.Errorf("%s, %s: created %t", name, how, there)
			}
			// An update of an existing object does not require permission to create.
			a.must("POST "+inA+"configmaps", `{"metadata":{"name":"there"}}`)
			requested = nil
			a.must("PUT "+inA+"configmaps/there", `{"metadata":{"name":"there","labels":{"a":"b"}}}`)
			a.must("PATCH "+inA+"configmaps/there", `{}`, "Content-Type", mergeT)
			if len(requested) > 0 {
				t.Errorf("%s, %s: updates required permission for %+v", name, how, requested)
			}
		}
	}
}

// TestValidationOfSubresources checks that an object created at the path of its parent has the
// parent's name, regardless of the request body.
func TestValidationOfSubresources(t *testing.T) {
	t.Parallel()
	names := map[admission.Operation]string{}
	a := newAPI(t, endpoints.Config{Admission: admission.Chain{validating(func(a *admission.Attributes) { names[a.Operation] = a.Name })}})
	a.must("POST "+inA+"pods", `{"metadata":{"generateName":"p-"}}`)
	if !strings.HasPrefix(names[admission.Create], "p-") {
		t.Errorf("a generated name: %q", names[admission.Create])
	}
	a.must("PUT "+inA+"pods/"+names[admission.Create]+"/status", `{"metadata":{"name":"`+names[admission.Create]+`"}}`)
	a.must("DELETE "+inA+"pods", "")
	if names[admission.Update] != names[admission.Create] || names[admission.Delete] != "" {
		t.Errorf("names %v", names)
	}
}

type validating func(*admission.Attributes)

func (validating) Name() string                     { return "Validating" }
func (validating) Handles(admission.Operation) bool { return true }
func (v validating) Validate(_ context.Context, a *admission.Attributes) error {
	v(a)
	return nil
}

// TestWatchInitialized checks that the hook is called exactly once, either after the initial events or
// immediately if the watch has no initial events.
func TestWatchInitialized(t *testing.T) {
	t.Parallel()
	for _, query := range []string{"?watch=1", "?watch=1&resourceVersion=0", "?watch=1&resourceVersion=%d", "?watch=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"} {
		for _, open := range []func(testing.TB, endpoints.Config) *api{newAPI, newCachedAPI} {
			a := open(t, endpoints.Config{})
			for i := range 100 { // a whole batch
				a.configMap(fmt.Sprint("c", i), "")
			}
			if strings.Contains(query, "%d") {
				query = fmt.Sprintf(query, a.latest())
			}
			called := make(chan struct{}, 2)
			ctx, cancel := context.WithCancel(context.WithValue(t.Context(), prepareKey{}, func(ctx context.Context) {
				request.OnWatchInitialized(ctx, func() { called <- struct{}{} })
			}))
			r := newRequest("GET "+inA+"configmaps"+query, nil).WithContext(ctx)
			w := &flushed{discard{header: map[string][]string{}}, make(chan struct{}, 1000)}
			done := make(chan struct{})
			go func() { defer close(done); a.ServeHTTP(w, r) }()
			<-called
			cancel()
			<-done
			if len(called) > 0 {
				t.Errorf("%s: called again", query)
			}
		}
	}
}

func (a *api) latest() int64 {
	var list metav1.PartialObjectMetadataList
	a.must("GET "+inA+"configmaps", "").object(&list)
	var n int64
	_, _ = fmt.Sscan(list.ResourceVersion, &n)
	return n
}

// TestAdmissionCannotMove checks that admission cannot change the name or namespace of an object, because the
// user is authorized only for the original name and namespace.
func TestAdmissionCannotMove(t *testing.T) {
	t.Parallel()
	elsewhere := func(obj codec.Object) { obj.SetNamespace("kube-system") }
	renamed := func(obj codec.Object) { obj.SetName("other") }
	const wrongPlace = "the namespace of the provided object does not match the namespace sent on the request"
	for _, kind := range []struct{ collection, head string }{{inA + "configmaps", coreHead}, {inGroup + "widgets", widgetHead}} {
		for name, test := range map[string]struct {
			change  func(codec.Object)
			lines   []string // writes to an existing object, then to a missing one
			code    int
			message string
		}{
			"another namespace": {elsewhere, writes(kind.collection, kind.head), 400, wrongPlace},
			"another name":      {renamed, writes(kind.collection, kind.head)[1:], 422, "metadata.name: Invalid value"},
		} {
			t.Run(kind.collection+" "+name, func(t *testing.T) {
				t.Parallel()
				move := false
				a := newAPI(t, endpoints.Config{Admission: admission.Chain{mutating(func(_ context.Context, at *admission.Attributes) error {
					if obj, ok := at.Object.(codec.Object); ok && move {
						test.change(obj)
					}
					return nil
				})}})
				refused := func(line string, code int, message string) {
					t.Helper()
					parts := strings.Split(line, "|")
					if got := a.do(parts[0], parts[1], "Content-Type", parts[2]); got.Code != code || !strings.Contains(got.Body.String(), message) {
						t.Errorf("%s: %d %s; want %d %s", line, got.Code, got.Body, code, message)
					}
				}
				move = true
				code, message := test.code, test.message
				if name == "another name" {
					code, message = 400, "does not match the name on the URL (a)"
				}
				refused(test.lines[len(test.lines)-1], code, message) // an apply that creates
				if name == "another namespace" {
					refused(test.lines[0], code, message)
				}
				move = false
				a.write(writes(kind.collection, kind.head)[0])
				before := a.must("GET "+strings.Replace(kind.collection, "/namespaces/a", "", 1), "").Body.String()
				move = true
				for _, line := range test.lines {
					if !strings.HasPrefix(line, "POST") {
						refused(line, test.code, test.message)
					}
				}
				if after := a.must("GET "+strings.Replace(kind.collection, "/namespaces/a", "", 1), "").Body.String(); after != before {
					t.Errorf("stored objects have changed from\n%s to\n%s", before, after)
				}
			})
		}
	}
}

// TestInvalidAfterAdmission checks that an object that is invalid after admission results in the same
// Status as without admission, and in a warning that names the plugin or webhook that changed the object.
func TestInvalidAfterAdmission(t *testing.T) {
	t.Parallel()
	const invalid = `{` + coreHead + `"metadata":{"name":"a","labels":{"a b":"c"}}}`
	want := newAPI(t, endpoints.Config{}).do("POST "+inA+"configmaps", invalid, "Content-Type", jsonType)
	a := newAPI(t, endpoints.Config{Admission: admission.Chain{mutating(func(_ context.Context, a *admission.Attributes) error {
		a.RecordMutator("webhook x")
		return nil
	})}})
	got := a.do("POST "+inA+"configmaps", invalid, "Content-Type", jsonType)
	if got.Code != 422 || got.Body.String() != want.Body.String() {
		t.Errorf("%d %s; want %s", got.Code, got.Body, want.Body)
	}
	if diff := cmp.Diff([]string{"the invalid object was changed in admission by webhook x"}, got.warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}
