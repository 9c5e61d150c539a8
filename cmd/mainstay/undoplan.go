package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/apis/history"
)

// undoPlan contains the writes of the command undo, in order.
type undoPlan struct {
	steps []*undoStep
	// conflicts are the later changes of objects that are not restored.
	conflicts []*history.Change
}

// undoStep restores one object.
type undoStep struct {
	// change is the first change that is undone.
	change *history.Change
	// before is the state to restore, and now the present state; nil if the object does not exist.
	before, now map[string]any
}

// statesDiffer reports whether two states differ except in the metadata that each write changes. It compares
// the status only if status is set.
func statesDiffer(a, b map[string]any, status bool) bool {
	if a == nil || b == nil {
		return a != nil || b != nil
	}
	a, b = maps.Clone(history.WithoutNoise(a)), maps.Clone(history.WithoutNoise(b))
	if !status {
		delete(a, "status")
		delete(b, "status")
	}
	return !reflect.DeepEqual(a, b)
}

// print prints the differences and the conflicts.
func (p *undoPlan) print(out io.Writer) error {
	d := newDiffer(out, false)
	for _, step := range p.steps {
		if _, err := d.print(objectName(step.change), step.now, step.before); err != nil {
			return err
		}
	}
	for _, c := range p.conflicts {
		if _, err := fmt.Fprintf(out, "conflict: %s\n", describeChange(c)); err != nil {
			return err
		}
	}
	return nil
}

// sort orders the steps: objects are created before the objects that depend on them, and deleted in the
// reverse order.
func (p *undoPlan) sort() {
	depth := p.depths()
	rank := func(s *undoStep) int {
		switch {
		case s.before == nil:
			return 1000 - depth[s] // deletions at the end
		case s.now == nil:
			return depth[s]
		}
		return 500
	}
	slices.SortStableFunc(p.steps, func(a, b *undoStep) int { return rank(a) - rank(b) })
}

// depths returns the number of objects of the plan that an object depends on: its owners, its namespace and
// its definition.
func (p *undoPlan) depths() map[*undoStep]int {
	byUID := map[string]*undoStep{}
	for _, s := range p.steps {
		byUID[string(s.change.Object.UID)] = s
	}
	depths := map[*undoStep]int{}
	var depth func(s *undoStep, limit int) int
	depth = func(s *undoStep, limit int) int {
		if known, ok := depths[s]; ok || limit == 0 {
			return known
		}
		most := baseDepth(s.change)
		object := unstructured.Unstructured{Object: s.before}
		if s.before == nil {
			object.Object = s.now
		}
		for _, owner := range object.GetOwnerReferences() {
			if o := byUID[string(owner.UID)]; o != nil && o != s {
				most = max(most, depth(o, limit-1)+1)
			}
		}
		depths[s] = most
		return most
	}
	for _, s := range p.steps {
		depth(s, 20)
	}
	return depths
}

// baseDepth returns the depth of an object without owners.
func baseDepth(c *history.Change) int {
	switch c.Object.Resource {
	case "namespaces":
		return 0
	case definitionsName:
		return 1
	case "serviceaccounts", "secrets", "configmaps":
		return 2
	}
	return 3
}

// created returns the namespaces and definitions that the plan creates.
func (p *undoPlan) created() map[string]bool {
	created := map[string]bool{}
	for _, s := range p.steps {
		switch {
		case s.now != nil:
		case s.change.Object.Resource == "namespaces":
			created["namespaces/"+s.change.Object.Name] = true
		case s.change.Object.Resource == definitionsName:
			created["definition/"+s.change.Object.Name] = true
		}
	}
	return created
}

// definitionsName is the resource of CustomResourceDefinitions.
const definitionsName = "customresourcedefinitions.apiextensions.k8s.io"

// apply performs the writes, and returns the number of failed ones.
func (u *undoCommand) apply(ctx context.Context, plan *undoPlan) (failed int) {
	created := plan.created()
	for _, step := range plan.steps {
		if u.dryRun != "" && (created["namespaces/"+step.change.Namespace] || created["definition/"+step.change.Object.Resource]) {
			fmt.Fprintf(u.out, "%s not validated: its namespace or definition does not exist yet\n", describeObject(step.change))
			continue
		}
		done, err := u.write(ctx, step)
		if err != nil {
			failed++
			fmt.Fprintf(u.out, "%s failed: %v\n", describeObject(step.change), err)
			continue
		}
		if err := u.writeRest(ctx, step); err != nil {
			failed++
			fmt.Fprintf(u.out, "%s %s, but not completely: %v\n", describeObject(step.change), done, err)
			continue
		}
		if u.dryRun != "" {
			done += " (dry run)"
		}
		fmt.Fprintf(u.out, "%s %s\n", describeObject(step.change), done)
	}
	return failed
}

// write performs one write and returns its description.
func (u *undoCommand) write(ctx context.Context, s *undoStep) (string, error) {
	state := s.before
	if state == nil {
		state = s.now
	}
	collection, err := undoCollection(state, s.change)
	if err != nil {
		return "", err
	}
	item := collection + "/" + url.PathEscape(s.change.Object.Name)
	switch {
	case s.before == nil:
		return "deleted", u.delete(ctx, item, s.now)
	case s.now == nil:
		err := u.create(ctx, collection, s)
		var failed *apiError
		if errors.As(err, &failed) && failed.code == http.StatusConflict {
			// A controller has created it again, such as the default service account of a namespace.
			return "restored", u.replace(ctx, item, s.before, nil)
		}
		return "created again", err
	}
	return "restored", u.replace(ctx, item, s.before, s.now)
}

// writeRest restores the parts of an object that its own write does not: the status if requested, and the
// managers of its fields.
func (u *undoCommand) writeRest(ctx context.Context, s *undoStep) error {
	if s.before == nil || u.dryRun != "" && s.now == nil {
		return nil
	}
	collection, err := undoCollection(s.before, s.change)
	if err != nil {
		return err
	}
	item := collection + "/" + url.PathEscape(s.change.Object.Name)
	if err := u.writeStatus(ctx, item, s.before); err != nil {
		return fmt.Errorf("restore the status: %w", err)
	}
	if u.dryRun != "" {
		return nil
	}
	if err := u.writeManagers(ctx, item, s.before); err != nil {
		return fmt.Errorf("restore the managed fields: %w", err)
	}
	return nil
}

// writeStatus restores the status of an object with a status subresource, if requested. The write of the
// object restores the status of other objects.
func (u *undoCommand) writeStatus(ctx context.Context, item string, before map[string]any) error {
	status, ok := before["status"]
	if !u.status || !ok {
		return nil
	}
	var live map[string]any
	if err := u.client.do(ctx, http.MethodGet, item, nil, &live); err != nil {
		return err
	}
	live["status"] = status
	err := u.client.do(ctx, http.MethodPut, item+"/status"+u.parameters(url.Values{}), live, &json.RawMessage{})
	var failed *apiError
	if errors.As(err, &failed) && (failed.code == http.StatusNotFound || failed.code == http.StatusMethodNotAllowed) {
		return nil // there is no such subresource
	}
	return err
}

// writeManagers restores the managers of the fields of an object. Otherwise, this command would own the
// restored fields, and the next server-side apply of their managers would be a conflict. The managers of the
// status remain, unless the status is restored.
func (u *undoCommand) writeManagers(ctx context.Context, item string, before map[string]any) error {
	was := unstructured.Unstructured{Object: before}
	managers := was.GetManagedFields()
	if len(managers) == 0 {
		return nil
	}
	var live unstructured.Unstructured
	if err := u.client.do(ctx, http.MethodGet, item, nil, &live.Object); err != nil {
		return err
	}
	if !u.status {
		ofStatus := func(m metav1.ManagedFieldsEntry) bool { return m.Subresource == "status" }
		managers = slices.DeleteFunc(managers, ofStatus)
		for _, m := range live.GetManagedFields() {
			if ofStatus(m) {
				managers = append(managers, m)
			}
		}
	}
	// A patch has no conflict with a controller that writes the object at the same time.
	patch := unstructured.Unstructured{Object: map[string]any{}}
	patch.SetManagedFields(managers)
	return u.client.do(ctx, http.MethodPatch, item+u.parameters(url.Values{}), patch.Object, &json.RawMessage{})
}

// undoCollection returns the URL path of the collection of an object.
func undoCollection(object map[string]any, c *history.Change) (string, error) {
	version, _ := object["apiVersion"].(string)
	gv, err := schema.ParseGroupVersion(version)
	if err != nil || gv.Version == "" {
		return "", fmt.Errorf("the object has the apiVersion %q", version)
	}
	path := versionPath(gv)
	if c.Namespace != "" {
		path += "/namespaces/" + url.PathEscape(c.Namespace)
	}
	return path + "/" + c.Object.GroupResource().Resource, nil
}

// parameters returns the query of a write.
func (u *undoCommand) parameters(values url.Values) string {
	values.Set("fieldManager", "mainstay-undo")
	if u.dryRun != "" {
		values.Set("dryRun", "All")
	}
	return "?" + values.Encode()
}

// create creates an object with its UID.
func (u *undoCommand) create(ctx context.Context, collection string, s *undoStep) error {
	body := writable(s.before, nil)
	query := u.parameters(url.Values{"restoreFrom": {s.change.PreviousRevision}})
	if err := u.retry(ctx, func() error {
		return u.client.do(ctx, http.MethodPost, collection+query, body, &json.RawMessage{})
	}); err != nil {
		return err
	}
	if s.change.Object.Resource == definitionsName && u.dryRun == "" {
		return u.awaitEstablished(ctx, collection+"/"+url.PathEscape(s.change.Object.Name))
	}
	return nil
}

// errChanged is returned for an object that was changed after the plan was made.
var errChanged = errors.New("the object was changed in the meantime; run the command again")

// replace writes a state over the present one, which must be planned except for its status. A nil planned
// accepts any state.
func (u *undoCommand) replace(ctx context.Context, item string, state, planned map[string]any) error {
	var live map[string]any
	if err := u.client.do(ctx, http.MethodGet, item, nil, &live); err != nil {
		return err
	}
	if planned != nil && statesDiffer(live, planned, false) {
		return errChanged
	}
	return u.client.do(ctx, http.MethodPut, item+u.parameters(url.Values{}), writable(state, live), &json.RawMessage{})
}

// delete deletes an object, unless it was replaced in the meantime.
func (u *undoCommand) delete(ctx context.Context, item string, now map[string]any) error {
	object := unstructured.Unstructured{Object: now}
	uid := object.GetUID()
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}
	query := url.Values{}
	if u.dryRun != "" {
		query.Set("dryRun", "All")
	}
	err := u.client.do(ctx, http.MethodDelete, item+"?"+query.Encode(), &options, &json.RawMessage{})
	var failed *apiError
	if errors.As(err, &failed) && failed.code == http.StatusNotFound {
		return nil // deleted with its owner
	}
	return err
}

// writable returns the body of a write: a state without the fields that the server sets. live is the present
// object, or nil.
func writable(state, live map[string]any) map[string]any {
	object := unstructured.Unstructured{Object: state}
	object = *object.DeepCopy()
	object.SetManagedFields(nil)
	object.SetResourceVersion("")
	object.SetGeneration(0)
	unstructured.RemoveNestedField(object.Object, "metadata", "deletionTimestamp")
	unstructured.RemoveNestedField(object.Object, "metadata", "deletionGracePeriodSeconds")
	if live != nil {
		present := unstructured.Unstructured{Object: live}
		object.SetResourceVersion(present.GetResourceVersion())
		object.SetUID(present.GetUID())
	}
	return object.Object
}

const (
	// undoTimeout bounds the wait for a namespace whose deletion is in progress, and for a definition.
	undoTimeout = 30 * time.Second
	undoPoll    = 200 * time.Millisecond
)

// retry repeats a creation while the object or its namespace is being deleted.
func (u *undoCommand) retry(ctx context.Context, create func() error) error {
	ctx, cancel := context.WithTimeout(ctx, undoTimeout)
	defer cancel()
	for {
		err := create()
		var failed *apiError
		if err == nil || !errors.As(err, &failed) || !failed.isTemporary() {
			return err
		}
		select {
		case <-time.After(undoPoll):
		case <-ctx.Done():
			return err
		}
	}
}

// awaitEstablished waits until a definition is in effect.
func (u *undoCommand) awaitEstablished(ctx context.Context, item string) error {
	ctx, cancel := context.WithTimeout(ctx, undoTimeout)
	defer cancel()
	for {
		var definition struct {
			Status struct{ Conditions []metav1.Condition }
		}
		if err := u.client.do(ctx, http.MethodGet, item, nil, &definition); err != nil {
			return err
		}
		for _, c := range definition.Status.Conditions {
			if c.Type == "Established" && c.Status == metav1.ConditionTrue {
				return nil
			}
		}
		select {
		case <-time.After(undoPoll):
		case <-ctx.Done():
			return errors.New("the definition is not established")
		}
	}
}
