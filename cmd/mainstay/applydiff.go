package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"mainstay.dev/mainstay/internal/apis/history"
)

// applyDiffCommand is the command apply-diff.
type applyDiffCommand struct {
	planWriter
	kubeconfig, namespace string
	root                  *apiClient
}

func newApplyDiff(signals <-chan os.Signal) *cobra.Command {
	a := applyDiffCommand{planWriter: planWriter{manager: "mainstay-apply-diff"}}
	command := &cobra.Command{
		Use:   "apply-diff FORK [TARGET]",
		Short: "Apply the changes of a fork to another control plane",
		Long: `Write the changes that were made in the control plane FORK since it was forked to TARGET: the
name of a ControlPlane object, or root. The default is the source of the fork.

An object that was changed in TARGET, too, is merged by fields; a field with two different
changes is a conflict: it is reported and not overwritten. Namespaces, definitions and
owners are created before the objects that depend on them. Objects that a controller
creates for another object, IPAddresses of services, tokens of service accounts, and the
status are omitted. The command prints the differences, and writes only after a confirmation.
Its exit code is 1 if there was a conflict or an error.`,
		Example: `  mainstay apply-diff try-upgrade --dry-run=server
  mainstay apply-diff try-upgrade root --yes`,
		RunE: func(c *cobra.Command, args []string) (err error) {
			ctx, stop := untilSignal(signals)
			defer stop()
			if err := a.check(); err != nil {
				return &usageError{err}
			}
			if len(args) < 1 || len(args) > 2 {
				return &usageError{errors.New("apply-diff requires FORK, and accepts TARGET")}
			}
			a.in, a.out = c.InOrStdin(), c.OutOrStdout()
			if a.root, err = newAPIClient(a.kubeconfig); err != nil {
				return err
			}
			target := ""
			if len(args) == 2 {
				target = args[1]
			}
			return a.run(ctx, args[0], target)
		},
	}
	flags := command.Flags()
	flags.SortFlags = false
	a.addTo(flags)
	flags.StringVarP(&a.namespace, "namespace", "n", "", "only objects of this namespace")
	kubeconfigVar(flags, &a.kubeconfig)
	return command
}

func (a *applyDiffCommand) run(ctx context.Context, fork, target string) error {
	source, err := readFork(ctx, a.root, fork)
	if err != nil {
		return err
	}
	if target == "" {
		target = source
	}
	// If the target did not exist, all its objects would appear to be deleted.
	if err := a.root.checkControlPlane(ctx, target); err != nil {
		return err
	}
	changes, err := forkChanges(ctx, a.root, fork, a.namespace)
	if err != nil {
		return err
	}
	a.target = a.root.inControlPlane(target)
	plan := &writePlan{}
	for _, c := range changes {
		if !c.IsComplete() {
			plan.conflicts = append(plan.conflicts, describeObject(c)+": the server cannot decode it")
			continue
		}
		if isDerived(c) {
			continue
		}
		step, conflict, err := a.step(ctx, c)
		if err != nil {
			return err
		}
		if conflict != "" {
			plan.conflicts = append(plan.conflicts, describeObject(c)+": "+conflict)
		} else if step != nil {
			plan.steps = append(plan.steps, step)
		}
	}
	plan.sort()
	if len(plan.steps) == 0 && len(plan.conflicts) == 0 {
		_, err := fmt.Fprintf(a.out, "%s has all changes of %s\n", target, fork)
		return err
	}
	return a.planWriter.run(ctx, plan)
}

// isDerived reports whether a controller or the server created the object of a change. The target creates such
// objects itself.
func isDerived(c *history.Change) bool {
	object := unstructured.Unstructured{Object: c.State()}
	kind, _, _ := unstructured.NestedString(object.Object, "type")
	return metav1.GetControllerOf(&object) != nil || isServiceAddress(c, object.Object) || c.Object.Resource == "secrets" && kind == string(corev1.SecretTypeServiceAccountToken)
}

// step returns the write that applies a change to the target, or nil if the target already has the change.
// conflict is not empty if the target was changed differently.
func (a *applyDiffCommand) step(ctx context.Context, c *history.Change) (step *writeStep, conflict string, err error) {
	live, err := a.live(ctx, c)
	if err != nil {
		return nil, "", err
	}
	if live != nil {
		a.recordUID(c.Object.UID, live) // an object that was created in both may own objects of the plan
	}
	switch {
	case !statesDiffer(withoutIdentity(live), withoutIdentity(c.After), false):
		return nil, "", nil
	case c.Operation == history.Created && live != nil:
		return nil, "it was created in both", nil
	case c.Operation == history.Created:
		return &writeStep{change: c, want: c.After}, "", nil
	case c.Operation == history.Deleted && statesDiffer(live, c.Before, false):
		return nil, "it was deleted in the fork, and changed in the target", nil
	case c.Operation == history.Deleted:
		return &writeStep{change: c, live: live}, "", nil
	case live == nil:
		return nil, "it was changed in the fork, and deleted in the target", nil
	case !statesDiffer(live, c.Before, false):
		return &writeStep{change: c, want: c.After, live: live}, "", nil
	}
	merged, fields := mergeStates(c.Before, c.After, live)
	if len(fields) > 0 {
		return nil, "changed in both: " + strings.Join(fields, ", "), nil
	}
	if !statesDiffer(live, merged, false) {
		return nil, "", nil
	}
	return &writeStep{change: c, want: merged, live: live}, "", nil
}

// withoutIdentity returns a copy of a state without the fields that differ between two objects that were
// created separately.
func withoutIdentity(state map[string]any) map[string]any {
	if state == nil {
		return nil
	}
	object := unstructured.Unstructured{Object: state}
	object = *object.DeepCopy()
	for _, name := range []string{"uid", "creationTimestamp"} {
		unstructured.RemoveNestedField(object.Object, "metadata", name)
	}
	owners := object.GetOwnerReferences()
	for i := range owners {
		owners[i].UID = ""
	}
	if len(owners) > 0 {
		object.SetOwnerReferences(owners)
	}
	return object.Object
}

// live returns the object of a change as it is in the target, or nil if it does not exist there.
func (a *applyDiffCommand) live(ctx context.Context, c *history.Change) (map[string]any, error) {
	collection, err := collectionOf(c.State(), c)
	if err != nil {
		return nil, err
	}
	var live map[string]any
	err = a.target.do(ctx, http.MethodGet, collection+"/"+url.PathEscape(c.Object.Name), nil, &live)
	if isStatus(err, http.StatusNotFound) {
		return nil, nil
	}
	return live, err
}

// mergeStates applies the differences between base and changed to live. conflicts lists the paths of the fields
// that differ from base in both changed and live, but have different values there. The result has the status of
// live and no managed fields.
func mergeStates(base, changed, live map[string]any) (merged map[string]any, conflicts []string) {
	m := stateMerge{}
	result, _ := m.merge("", withoutStatus(history.WithoutNoise(base)), withoutStatus(history.WithoutNoise(changed)), withoutStatus(history.WithoutNoise(live))).(map[string]any)
	if status, ok := live["status"]; ok {
		result["status"] = status
	}
	slices.Sort(m.conflicts)
	return result, m.conflicts
}

// stateMerge is a three-way merge of states. It does not merge the elements of lists.
type stateMerge struct{ conflicts []string }

// absent represents the value of a field that does not exist.
type absent struct{}

func (m *stateMerge) merge(path string, base, changed, live any) any {
	switch {
	case reflect.DeepEqual(base, changed), reflect.DeepEqual(changed, live):
		return live
	case reflect.DeepEqual(base, live):
		return changed
	}
	changedFields, ok := changed.(map[string]any)
	liveFields, alsoLive := live.(map[string]any)
	if !ok || !alsoLive {
		m.conflicts = append(m.conflicts, path)
		return live
	}
	baseFields, _ := base.(map[string]any)
	merged := map[string]any{}
	for name := range union(baseFields, changedFields, liveFields) {
		value := m.merge(strings.TrimPrefix(path+"."+name, "."), field(baseFields, name), field(changedFields, name), field(liveFields, name))
		if value != (any)(absent{}) {
			merged[name] = value
		}
	}
	return merged
}

func field(object map[string]any, name string) any {
	if value, ok := object[name]; ok {
		return value
	}
	return absent{}
}

// union returns the set of the field names of all objects.
func union(objects ...map[string]any) map[string]bool {
	names := map[string]bool{}
	for _, object := range objects {
		for name := range maps.Keys(object) {
			names[name] = true
		}
	}
	return names
}
