package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"
)

var listingObjects = []clientBehavior{
	{"are paged from one snapshot", listPages},
	{"report the remaining item count", listRemaining},
	{"work with the pager of client-go", listPager},
	{"have the requested revision", listRevision},
	{"reject a future revision", listFuture},
	{"reject contradictory options", listOptions},
	{"select by labels", listLabels},
	{"select by fields", listFields},
	{"can be read as metadata only", listMetadata},
	{"can be read as a table", listTable},
	{"are consistent with writes", listConsistent},
	{"span namespaces", listAllNamespaces},
}

// createMany creates n ConfigMaps named m000, m001 and so on.
func createMany(t *testing.T, c *clients, n int) {
	t.Helper()
	for i := range n {
		c.create(t, fmt.Sprintf("m%03d", i), "i", strconv.Itoa(i))
	}
}

func listPages(t *testing.T, c *clients) {
	createMany(t, c, 10)
	options := metav1.ListOptions{Limit: 4, LabelSelector: "app=test"}
	first := must[*corev1.ConfigMapList](t)(c.maps.List(t.Context(), options))
	c.create(t, "m0005-late")
	if err := c.maps.Delete(t.Context(), "m007", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	names := namesOf(first)
	for token := first.Continue; token != ""; {
		options.Continue = token
		page := must[*corev1.ConfigMapList](t)(c.maps.List(t.Context(), options))
		if page.ResourceVersion != first.ResourceVersion {
			t.Errorf("a page of revision %s after one of %s", page.ResourceVersion, first.ResourceVersion)
		}
		names, token = append(names, namesOf(page)...), page.Continue
	}
	if want := []string{"m000", "m001", "m002", "m003", "m004", "m005", "m006", "m007", "m008", "m009"}; !slices.Equal(names, want) {
		t.Errorf("the pages hold %v, want %v", names, want)
	}
}

func namesOf(list *corev1.ConfigMapList) []string {
	names := make([]string, 0, len(list.Items))
	for _, item := range list.Items {
		names = append(names, item.Name)
	}
	return names
}

func listRemaining(t *testing.T, c *clients) {
	createMany(t, c, 7)
	page := must[*corev1.ConfigMapList](t)(c.maps.List(t.Context(), metav1.ListOptions{Limit: 3}))
	// A controller may have created kube-root-ca.crt.
	all := must[*corev1.ConfigMapList](t)(c.maps.List(t.Context(), metav1.ListOptions{}))
	if page.RemainingItemCount == nil || *page.RemainingItemCount != int64(len(all.Items)-3) {
		t.Errorf("%v are left of %d", page.RemainingItemCount, len(all.Items))
	}
	selected := must[*corev1.ConfigMapList](t)(c.maps.List(t.Context(), metav1.ListOptions{Limit: 3, LabelSelector: "app=test"}))
	if selected.RemainingItemCount != nil || selected.Continue == "" {
		t.Errorf("a selected page tells %v, continue %q", selected.RemainingItemCount, selected.Continue)
	}
}

func listPager(t *testing.T, c *clients) {
	createMany(t, c, 25)
	p := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return c.maps.List(ctx, options)
	})
	p.PageSize = 7
	seen := 0
	err := p.EachListItem(t.Context(), metav1.ListOptions{LabelSelector: "app=test"}, func(runtime.Object) error { seen++; return nil })
	if err != nil || seen != 25 {
		t.Errorf("saw %d of 25: %v", seen, err)
	}
}

func listRevision(t *testing.T, c *clients) {
	c.create(t, "a", "v", "1")
	before := must[*corev1.ConfigMapList](t)(c.maps.List(t.Context(), metav1.ListOptions{LabelSelector: "app=test"}))
	c.create(t, "b")
	for match, want := range map[metav1.ResourceVersionMatch][]string{
		metav1.ResourceVersionMatchExact:        {"a"},
		metav1.ResourceVersionMatchNotOlderThan: {"a", "b"},
	} {
		got := must[*corev1.ConfigMapList](t)(c.maps.List(t.Context(), metav1.ListOptions{
			LabelSelector: "app=test", ResourceVersion: before.ResourceVersion, ResourceVersionMatch: match,
		}))
		if !slices.Equal(namesOf(got), want) {
			t.Errorf("%s lists %v, want %v", match, namesOf(got), want)
		}
		if match == metav1.ResourceVersionMatchExact && got.ResourceVersion != before.ResourceVersion {
			t.Errorf("Exact answers at %s, not at %s", got.ResourceVersion, before.ResourceVersion)
		}
	}
	any := must[*corev1.ConfigMapList](t)(c.maps.List(t.Context(), metav1.ListOptions{ResourceVersion: "0"}))
	if any.ResourceVersion == "" || any.ResourceVersion == "0" {
		t.Errorf("a list of any revision is of %q", any.ResourceVersion)
	}
}

func listFuture(t *testing.T, c *clients) {
	for _, path := range []string{"configmaps", "configmaps/a"} {
		// Without MaxRetries(0), client-go would retry ten times, as the Retry-After header requests.
		err := c.kube.CoreV1().RESTClient().Get().AbsPath("/api/v1/namespaces", c.namespace, path).
			Param("resourceVersion", "99999999").MaxRetries(0).Do(t.Context()).Error()
		wantError(t, err, apierrors.IsTimeout, "Timeout")
		if !apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
			t.Errorf("no cause ResourceVersionTooLarge in %v", err)
		}
	}
}

func listOptions(t *testing.T, c *clients) {
	for name, options := range map[string]metav1.ListOptions{
		"a match without a revision":   {ResourceVersionMatch: metav1.ResourceVersionMatchExact},
		"Exact at zero":                {ResourceVersion: "0", ResourceVersionMatch: metav1.ResourceVersionMatchExact},
		"an unknown match":             {ResourceVersion: "5", ResourceVersionMatch: "Roughly"},
		"initial events without watch": {SendInitialEvents: new(bool)},
	} {
		_, err := c.maps.List(t.Context(), options)
		wantError(t, err, apierrors.IsInvalid, "Invalid for "+name)
	}
	for name, options := range map[string]metav1.ListOptions{
		"a continue token that is none":  {Continue: "nonsense"},
		"a label selector that is none":  {LabelSelector: "a in"},
		"a field that is not selectable": {FieldSelector: "data.a=b"},
	} {
		_, err := c.maps.List(t.Context(), options)
		wantError(t, err, apierrors.IsBadRequest, "BadRequest for "+name)
	}
}

func listLabels(t *testing.T, c *clients) {
	for name, tier := range map[string]string{"a": "front", "b": "back", "c": ""} {
		m := newConfigMap(name)
		m.Labels["tier"] = tier
		must[*corev1.ConfigMap](t)(c.maps.Create(t.Context(), m, metav1.CreateOptions{}))
	}
	c.create(t, "d")
	for selector, want := range map[string][]string{
		"app=test,tier":                    {"a", "b", "c"},
		"app=test,!tier":                   {"d"},
		"app=test,tier=":                   {"c"},
		"app=test,tier!=front":             {"b", "c", "d"},
		"tier in (front, back)":            {"a", "b"},
		"app=test,tier notin (front,back)": {"c", "d"},
		"app=other":                        {},
	} {
		got := must[*corev1.ConfigMapList](t)(c.maps.List(t.Context(), metav1.ListOptions{LabelSelector: selector}))
		if !slices.Equal(namesOf(got), want) {
			t.Errorf("%s selects %v, want %v", selector, namesOf(got), want)
		}
	}
}

func listFields(t *testing.T, c *clients) {
	pods := c.kube.CoreV1().Pods(c.namespace)
	for name, node := range map[string]string{"free": "", "bound": "n1"} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
		must[*corev1.Pod](t)(pods.Create(t.Context(), pod, metav1.CreateOptions{}))
	}
	for selector, want := range map[string]string{
		"spec.nodeName=n1":                                "bound",
		"spec.nodeName=":                                  "free",
		"spec.nodeName!=n1,status.phase=Pending":          "free",
		"metadata.name=bound,metadata.namespace!=default": "bound",
		"status.phase=Running":                            "",
		"spec.restartPolicy=Always,spec.nodeName=n1":      "bound",
	} {
		got := must[*corev1.PodList](t)(pods.List(t.Context(), metav1.ListOptions{FieldSelector: selector}))
		name := ""
		for _, pod := range got.Items {
			name += pod.Name
		}
		if name != want {
			t.Errorf("%s selects %q, want %q", selector, name, want)
		}
	}
}

func listMetadata(t *testing.T, c *clients) {
	createMany(t, c, 3)
	resource := corev1.SchemeGroupVersion.WithResource("configmaps")
	list := must[*metav1.PartialObjectMetadataList](t)(c.metadata.Resource(resource).Namespace(c.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app=test"}))
	if len(list.Items) != 3 || list.Items[0].Name != "m000" || list.Items[0].Labels["app"] != "test" || list.ResourceVersion == "" {
		t.Errorf("got %+v", list)
	}
	one := must[*metav1.PartialObjectMetadata](t)(c.metadata.Resource(resource).Namespace(c.namespace).Get(t.Context(), "m001", metav1.GetOptions{}))
	if one.Name != "m001" || one.UID == "" {
		t.Errorf("got %+v", one)
	}
}

func listTable(t *testing.T, c *clients) {
	createMany(t, c, 2)
	raw, err := c.kube.CoreV1().RESTClient().Get().Namespace(c.namespace).Resource("configmaps").
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Param("labelSelector", "app=test").Do(t.Context()).Raw()
	if err != nil {
		t.Fatal(err)
	}
	var table metav1.Table
	if err := json.Unmarshal(raw, &table); err != nil {
		t.Fatal(err)
	}
	if len(table.Rows) != 2 || table.Rows[0].Cells[0] != "m000" || table.ColumnDefinitions[1].Name != "Data" {
		t.Errorf("got %s", raw)
	}
}

func listConsistent(t *testing.T, c *clients) {
	for i := range 30 {
		name := fmt.Sprintf("m%03d", i)
		created := c.create(t, name)
		list := must[*corev1.ConfigMapList](t)(c.maps.List(t.Context(), metav1.ListOptions{LabelSelector: "app=test"}))
		if len(list.Items) != i+1 {
			t.Fatalf("%d of %d objects are listed right after a write", len(list.Items), i+1)
		}
		if revision(t, list.ResourceVersion) < revision(t, created.ResourceVersion) {
			t.Fatalf("a list of revision %s after a write of %s", list.ResourceVersion, created.ResourceVersion)
		}
	}
}

// revision parses a resourceVersion. Clients can compare resourceVersions as decimal numbers.
func revision(t *testing.T, resourceVersion string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		t.Fatalf("resourceVersion %q: %v", resourceVersion, err)
	}
	return n
}

func listAllNamespaces(t *testing.T, c *clients) {
	other := newClients(t, rest.CopyConfig(c.config))
	for _, each := range []*clients{c, other} {
		m := newConfigMap("shared")
		m.Labels["both"] = c.namespace
		must[*corev1.ConfigMap](t)(each.maps.Create(t.Context(), m, metav1.CreateOptions{}))
	}
	all := c.kube.CoreV1().ConfigMaps(metav1.NamespaceAll)
	list := must[*corev1.ConfigMapList](t)(all.List(t.Context(), metav1.ListOptions{LabelSelector: "both=" + c.namespace}))
	if len(list.Items) != 2 {
		t.Errorf("%d of 2", len(list.Items))
	}
	list = must[*corev1.ConfigMapList](t)(all.List(t.Context(), metav1.ListOptions{LabelSelector: "both=" + c.namespace, FieldSelector: "metadata.namespace=" + other.namespace}))
	if len(list.Items) != 1 || list.Items[0].Namespace != other.namespace {
		t.Errorf("by namespace: %v", list.Items)
	}
	dynamicList := must[*unstructured.UnstructuredList](t)(c.dynamic.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).
		List(t.Context(), metav1.ListOptions{LabelSelector: "both=" + c.namespace}))
	if len(dynamicList.Items) != 2 {
		t.Errorf("%d of 2 by the dynamic client", len(dynamicList.Items))
	}
}
