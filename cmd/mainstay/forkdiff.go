package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"mainstay.dev/mainstay/internal/apis/controlplanes"
	"mainstay.dev/mainstay/internal/apis/history"
	"mainstay.dev/mainstay/internal/host/fleet"
)

// controlPlaneArgument precedes the name of a control plane in the arguments of diff.
const controlPlaneArgument = "control-plane/"

// controlPlaneArguments returns the names of control planes in the arguments of diff, [BEFORE] AFTER. before is
// "" if there is only one argument. ok is false if the arguments do not name control planes.
func controlPlaneArguments(args []string) (before, after string, ok bool) {
	names := make([]string, len(args))
	for i, arg := range args {
		name, isName := strings.CutPrefix(arg, controlPlaneArgument)
		if !isName || name == "" {
			return "", "", false
		}
		names[i] = name
	}
	switch len(names) {
	case 1:
		return "", names[0], true
	case 2:
		return names[0], names[1], true
	}
	return "", "", false
}

// readFork returns the name of the control plane from which a fork was created.
func readFork(ctx context.Context, client *apiClient, fork string) (source string, err error) {
	var object controlplanes.ControlPlane
	if err := client.do(ctx, http.MethodGet, controlPlanePath(fork), nil, &object); err != nil {
		return "", err
	}
	if object.Spec.From == nil {
		return "", &usageError{fmt.Errorf("the control plane %s is not a fork", fork)}
	}
	return cmp.Or(object.Spec.From.ControlPlane, rootName), nil
}

// inControlPlane returns a client for the API of a control plane.
func (c *apiClient) inControlPlane(name string) *apiClient {
	if name == rootName {
		return c
	}
	return &apiClient{c.http, c.url + "/clusters/" + url.PathEscape(name)}
}

// checkControlPlane returns an error if a control plane does not exist.
func (c *apiClient) checkControlPlane(ctx context.Context, name string) error {
	if name == rootName {
		return nil
	}
	return c.do(ctx, http.MethodGet, controlPlanePath(name), nil, &controlplanes.ControlPlane{})
}

// forkChanges returns the changes of a fork, sorted by namespace, resource and name. It omits changes of the
// status and of generated objects. An empty namespace selects all objects.
func forkChanges(ctx context.Context, client *apiClient, fork, namespace string) ([]*history.Change, error) {
	var list struct{ Items []*history.Change }
	if err := client.inControlPlane(fork).do(ctx, http.MethodGet, fleet.ChangesPath, nil, &list); err != nil {
		if isStatus(err, http.StatusNotFound) {
			return nil, fmt.Errorf("the control plane %s has no changes of a fork: %w", fork, err)
		}
		return nil, err
	}
	return relevantChanges(list.Items, namespace), nil
}

// relevantChanges filters and sorts changes as described for forkChanges. It modifies the slice changes.
func relevantChanges(changes []*history.Change, namespace string) []*history.Change {
	changes = slices.DeleteFunc(changes, func(c *history.Change) bool {
		outside := namespace != "" && c.Namespace != namespace && objectName(c) != "namespaces/"+namespace
		return outside || c.IsComplete() && (isGenerated(c) || !statesDiffer(c.Before, c.After, false))
	})
	slices.SortFunc(changes, func(a, b *history.Change) int {
		return strings.Compare(a.Namespace+"\x00"+objectName(a), b.Namespace+"\x00"+objectName(b))
	})
	return changes
}

// isGenerated reports whether each control plane creates the object of a change itself, such as the ConfigMap
// with the CA certificate and the default service account of a namespace, or the APIService of a definition.
func isGenerated(c *history.Change) bool {
	if c.Operation == history.Updated {
		return false
	}
	object := unstructured.Unstructured{Object: c.State()}
	switch objectName(c) {
	case "configmaps/kube-root-ca.crt":
		return true
	case "serviceaccounts/default":
		return len(object.GetLabels()) == 0 && len(object.GetAnnotations()) == 0 && object.Object["imagePullSecrets"] == nil
	}
	return c.Object.Resource == "apiservices.apiregistration.k8s.io" && object.GetLabels()["kube-aggregator.kubernetes.io/automanaged"] != ""
}

// runControlPlanes compares two control planes. If before is "" or the source of the fork after, it prints the
// changes of the fork since its creation. Otherwise, or if these changes are not available, it compares the
// current objects of before and after.
func (d *diffCommand) runControlPlanes(ctx context.Context, before, after, namespace string) error {
	root := d.client.apiClient
	source, err := readFork(ctx, root, after)
	if err != nil && before == "" {
		return err
	}
	if err == nil && (before == "" || before == source) {
		changes, err := forkChanges(ctx, root, after, namespace)
		if err == nil {
			return d.printChanges(changes, fmt.Sprintf("%s since it was forked from %s", after, source))
		}
		if before == "" || !isStatus(err, http.StatusBadRequest) {
			return err
		}
	}
	for _, name := range []string{before, after} {
		if err := root.checkControlPlane(ctx, name); err != nil {
			return err
		}
	}
	changes, err := compareObjects(ctx, root.inControlPlane(before), root.inControlPlane(after), namespace)
	if err != nil {
		return err
	}
	return d.printChanges(changes, fmt.Sprintf("%s compared with %s", after, before))
}

// printChanges prints the differences of each change, and a line with the number of changes.
func (d *diffCommand) printChanges(changes []*history.Change, title string) error {
	printer := newDiffer(d.out, d.all)
	counts := map[history.Operation]int{}
	for _, c := range changes {
		name := objectName(c)
		if c.Namespace != "" {
			name = c.Namespace + "/" + name
		}
		if !c.IsComplete() {
			if _, err := fmt.Fprintf(d.out, "%s: %s; the server cannot decode it\n", name, strings.ToLower(string(c.Operation))); err != nil {
				return err
			}
		} else if _, err := printer.print(name, withoutStatus(c.Before), withoutStatus(c.After)); err != nil {
			return err
		}
		counts[c.Operation]++
	}
	_, err := fmt.Fprintf(d.out, "%s: %d created, %d changed, %d deleted\n", title, counts[history.Created], counts[history.Updated], counts[history.Deleted])
	return err
}

// withoutStatus returns a copy of a state without its status.
func withoutStatus(state map[string]any) map[string]any {
	if state == nil {
		return nil
	}
	object := unstructured.Unstructured{Object: state}
	object = *object.DeepCopy()
	delete(object.Object, "status")
	return object.Object
}
