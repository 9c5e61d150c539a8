package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/term"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/apis/history"
)

// planWriter performs the writes of a plan on a server.
type planWriter struct {
	target *apiClient
	out    io.Writer
	in     io.Reader // for the confirmation
	// manager is the field manager of the writes.
	manager string
	// dryRun is "server" to validate the writes without storing them.
	dryRun string
	yes    bool // writes without confirmation
	status bool // also restores the status
	// restoreUIDs creates objects with their original UIDs. The server reads the UIDs from its history.
	restoreUIDs bool
	// uids maps UIDs of objects in the plan to the UIDs that these objects have in the target.
	uids map[types.UID]types.UID
}

// addTo defines the flags of w.
func (w *planWriter) addTo(flags *pflag.FlagSet) {
	flags.BoolVarP(&w.yes, "yes", "y", false, "write without a confirmation")
	flags.StringVar(&w.dryRun, "dry-run", "", "server: validate the writes without storing them")
}

func (w *planWriter) check() error {
	if w.dryRun != "" && w.dryRun != "server" {
		return fmt.Errorf("--dry-run is %q; it must be server", w.dryRun)
	}
	return nil
}

// run prints a plan, asks for confirmation, and performs the writes. The error reports the number of objects
// that were not written.
func (w *planWriter) run(ctx context.Context, plan *writePlan) error {
	if err := plan.print(w.out); err != nil {
		return err
	}
	if len(plan.steps) > 0 {
		if ok, err := w.confirm(ctx, len(plan.steps)); err != nil || !ok {
			return err
		}
	}
	failed := w.apply(ctx, plan)
	if n := failed + len(plan.conflicts); n > 0 {
		return fmt.Errorf("%d of %d objects were not written", n, len(plan.steps)+len(plan.conflicts))
	}
	return nil
}

// confirm reports whether to perform the writes. It asks the user, unless a flag makes that unnecessary.
func (w *planWriter) confirm(ctx context.Context, objects int) (bool, error) {
	if w.yes || w.dryRun != "" {
		return true, nil
	}
	if file, ok := w.in.(*os.File); !ok || !term.IsTerminal(int(file.Fd())) {
		return false, &usageError{errors.New("--yes is required if the standard input is not a terminal")}
	}
	fmt.Fprintf(w.out, "Write %d objects? [y/N] ", objects)
	return readConfirmation(ctx, w.in)
}

// errNotConfirmed is returned if a signal arrives before the user has confirmed the writes.
var errNotConfirmed = errors.New("stopped by a signal; nothing was written")

// readConfirmation reports whether the next line of input confirms the writes. It returns errNotConfirmed if
// ctx ends first.
func readConfirmation(ctx context.Context, in io.Reader) (bool, error) {
	answer, err := readUntilDone(ctx, func() (string, error) { return bufio.NewReader(in).ReadString('\n') })
	switch {
	case err != nil && ctx.Err() != nil:
		return false, errNotConfirmed
	case err != nil && !errors.Is(err, io.EOF):
		return false, err
	}
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes", nil
}

// writePlan contains writes in the order in which they are performed.
type writePlan struct {
	steps []*writeStep
	// conflicts describes the objects that are not written.
	conflicts []string
}

// writeStep is the write of one object.
type writeStep struct {
	// change identifies the object. For undo, it is the first change that is undone.
	change *history.Change
	// want is the state to write, and live is the current state. A nil state means that the object does not
	// exist.
	want, live map[string]any
}

// state returns the state to write, or the current state if the object is deleted.
func (s *writeStep) state() map[string]any {
	if s.want == nil {
		return s.live
	}
	return s.want
}

// statesDiffer reports whether two states differ, apart from metadata that changes with every write. It
// compares the status only if status is true.
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

// isServiceAddress reports whether the object of a change is the IPAddress of a service. The server creates and
// deletes it with the service. If it existed first, the service could not be created with this address.
func isServiceAddress(c *history.Change, state map[string]any) bool {
	parent, _, _ := unstructured.NestedString(state, "spec", "parentRef", "resource")
	return c.Object.Resource == "ipaddresses.networking.k8s.io" && parent == "services"
}

// print prints the differences and the conflicts.
func (p *writePlan) print(out io.Writer) error {
	d := newDiffer(out, false)
	for _, step := range p.steps {
		if _, err := d.print(objectName(step.change), step.live, step.want); err != nil {
			return err
		}
	}
	for _, conflict := range p.conflicts {
		if _, err := fmt.Fprintf(out, "conflict: %s\n", conflict); err != nil {
			return err
		}
	}
	return nil
}

// sort orders the steps so that objects are created before the objects that depend on them, and deleted after
// them.
func (p *writePlan) sort() {
	depth := p.depths()
	rank := func(s *writeStep) int {
		switch {
		case s.want == nil:
			return 1000 - depth[s] // deletions at the end
		case s.live == nil:
			return depth[s]
		}
		return 500
	}
	slices.SortStableFunc(p.steps, func(a, b *writeStep) int { return rank(a) - rank(b) })
}

// depths returns the depth of each object in the dependency graph of the plan. The depth of an object is
// greater than the depths of its owners, its namespace and its definition.
func (p *writePlan) depths() map[*writeStep]int {
	byUID := map[string]*writeStep{}
	for _, s := range p.steps {
		byUID[string(s.change.Object.UID)] = s
	}
	depths := map[*writeStep]int{}
	var depth func(s *writeStep, limit int) int
	depth = func(s *writeStep, limit int) int {
		if known, ok := depths[s]; ok || limit == 0 {
			return known
		}
		most := baseDepth(s.change)
		object := unstructured.Unstructured{Object: s.state()}
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

// baseDepth returns the depth that an object has if it has no owners in the plan.
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

// created returns the set of the namespaces and definitions that the plan creates, as "namespaces/NAME" and
// "definition/NAME".
func (p *writePlan) created() map[string]bool {
	created := map[string]bool{}
	for _, s := range p.steps {
		switch {
		case s.live != nil:
		case s.change.Object.Resource == "namespaces":
			created["namespaces/"+s.change.Object.Name] = true
		case s.change.Object.Resource == definitionsName:
			created["definition/"+s.change.Object.Name] = true
		}
	}
	return created
}

// definitionsName is the full name of the resource of CustomResourceDefinitions.
const definitionsName = "customresourcedefinitions.apiextensions.k8s.io"

// apply performs the writes and returns how many of them failed.
func (w *planWriter) apply(ctx context.Context, plan *writePlan) (failed int) {
	created := plan.created()
	for _, step := range plan.steps {
		if w.dryRun != "" && (created["namespaces/"+step.change.Namespace] || created["definition/"+step.change.Object.Resource]) {
			fmt.Fprintf(w.out, "%s not validated: its namespace or definition does not exist yet\n", describeObject(step.change))
			continue
		}
		done, err := w.write(ctx, step)
		if err != nil {
			failed++
			fmt.Fprintf(w.out, "%s failed: %v\n", describeObject(step.change), err)
			continue
		}
		if err := w.writeRest(ctx, step); err != nil {
			failed++
			fmt.Fprintf(w.out, "%s %s, but not completely: %v\n", describeObject(step.change), done, err)
			continue
		}
		if w.dryRun != "" {
			done += " (dry run)"
		}
		fmt.Fprintf(w.out, "%s %s\n", describeObject(step.change), done)
	}
	return failed
}

// write performs one write and returns a word that describes it, such as "deleted".
func (w *planWriter) write(ctx context.Context, s *writeStep) (string, error) {
	collection, err := collectionOf(s.state(), s.change)
	if err != nil {
		return "", err
	}
	item := collection + "/" + url.PathEscape(s.change.Object.Name)
	created, changed := "created", "changed"
	if w.restoreUIDs {
		created, changed = "created again", "restored"
	}
	switch {
	case s.want == nil:
		return "deleted", w.delete(ctx, item, s.live)
	case s.live == nil:
		err := w.create(ctx, collection, s)
		if isStatus(err, http.StatusConflict) {
			// A controller has recreated the object, such as the default service account of a namespace.
			return changed, w.replace(ctx, item, s.want, nil)
		}
		return created, err
	}
	return changed, w.replace(ctx, item, s.want, s.live)
}

// writeRest restores the parts of an object that the write of the object itself cannot restore: the status, if
// requested, and the managers of the fields.
func (w *planWriter) writeRest(ctx context.Context, s *writeStep) error {
	if s.want == nil || w.dryRun != "" && s.live == nil {
		return nil
	}
	collection, err := collectionOf(s.want, s.change)
	if err != nil {
		return err
	}
	item := collection + "/" + url.PathEscape(s.change.Object.Name)
	if err := w.writeStatus(ctx, item, s.want); err != nil {
		return fmt.Errorf("restore the status: %w", err)
	}
	if w.dryRun != "" {
		return nil
	}
	if err := w.writeManagers(ctx, item, s.want); err != nil {
		return fmt.Errorf("restore the managed fields: %w", err)
	}
	return nil
}

// writeStatus restores the status of an object, if requested, through the status subresource. If the resource
// has no status subresource, the write of the object has already restored the status.
func (w *planWriter) writeStatus(ctx context.Context, item string, before map[string]any) error {
	status, ok := before["status"]
	if !w.status || !ok {
		return nil
	}
	var live map[string]any
	if err := w.target.do(ctx, http.MethodGet, item, nil, &live); err != nil {
		return err
	}
	live["status"] = status
	err := w.target.do(ctx, http.MethodPut, item+"/status"+w.parameters(url.Values{}), live, &json.RawMessage{})
	if isStatus(err, http.StatusNotFound, http.StatusMethodNotAllowed) {
		return nil // there is no such subresource
	}
	return err
}

// writeManagers restores the managers of an object's fields. Otherwise, this command would own the restored
// fields, and the next server-side apply by the original managers would fail with a conflict. The managers of
// the status are kept, unless the status is restored.
func (w *planWriter) writeManagers(ctx context.Context, item string, before map[string]any) error {
	was := unstructured.Unstructured{Object: before}
	managers := was.GetManagedFields()
	if len(managers) == 0 {
		return nil
	}
	var live unstructured.Unstructured
	if err := w.target.do(ctx, http.MethodGet, item, nil, &live.Object); err != nil {
		return err
	}
	if !w.status {
		ofStatus := func(m metav1.ManagedFieldsEntry) bool { return m.Subresource == "status" }
		managers = slices.DeleteFunc(managers, ofStatus)
		for _, m := range live.GetManagedFields() {
			if ofStatus(m) {
				managers = append(managers, m)
			}
		}
	}
	// A patch cannot conflict with a controller that writes the object at the same time.
	patch := unstructured.Unstructured{Object: map[string]any{}}
	patch.SetManagedFields(managers)
	return w.target.do(ctx, http.MethodPatch, item+w.parameters(url.Values{}), patch.Object, &json.RawMessage{})
}

// collectionOf returns the URL path of the collection to which an object belongs.
func collectionOf(object map[string]any, c *history.Change) (string, error) {
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

// parameters adds the query parameters that all writes have to values, and returns the encoded query.
func (w *planWriter) parameters(values url.Values) string {
	values.Set("fieldManager", w.manager)
	if w.dryRun != "" {
		values.Set("dryRun", "All")
	}
	return "?" + values.Encode()
}

// create creates an object. If restoreUIDs is true, the object gets its original UID.
func (w *planWriter) create(ctx context.Context, collection string, s *writeStep) error {
	body, values := writable(s.want, nil), url.Values{}
	if w.restoreUIDs {
		values.Set("restoreFrom", s.change.PreviousRevision)
	}
	w.replaceOwners(body)
	query := w.parameters(values)
	var created unstructured.Unstructured
	if err := w.retry(ctx, func() error {
		return w.target.do(ctx, http.MethodPost, collection+query, body, &created.Object)
	}); err != nil {
		return err
	}
	w.recordUID(s.change.Object.UID, created.Object)
	if s.change.Object.Resource == definitionsName && w.dryRun == "" {
		return w.awaitEstablished(ctx, collection+"/"+url.PathEscape(s.change.Object.Name))
	}
	return nil
}

// recordUID records that live is the object in the target that has the UID planned in the plan.
func (w *planWriter) recordUID(planned types.UID, live map[string]any) {
	if w.uids == nil {
		w.uids = map[types.UID]types.UID{}
	}
	object := unstructured.Unstructured{Object: live}
	w.uids[planned] = object.GetUID()
}

// replaceOwners replaces the UIDs of owners that have a different UID in the target. Otherwise, the garbage
// collector of the target would delete the object.
func (w *planWriter) replaceOwners(body map[string]any) {
	object := unstructured.Unstructured{Object: body}
	owners := object.GetOwnerReferences()
	for i := range owners {
		if uid, ok := w.uids[owners[i].UID]; ok {
			owners[i].UID = uid
		}
	}
	if len(owners) > 0 {
		object.SetOwnerReferences(owners)
	}
}

// errChanged is returned if an object was changed after the plan was made.
var errChanged = errors.New("the object was changed in the meantime; run the command again")

// replace replaces the current state of an object with state. It returns errChanged if the current state
// differs from planned in more than the status. If planned is nil, it replaces any current state.
func (w *planWriter) replace(ctx context.Context, item string, state, planned map[string]any) error {
	var live map[string]any
	if err := w.target.do(ctx, http.MethodGet, item, nil, &live); err != nil {
		return err
	}
	if planned != nil && statesDiffer(live, planned, false) {
		return errChanged
	}
	was := unstructured.Unstructured{Object: state}
	w.recordUID(was.GetUID(), live)
	body := writable(state, live)
	w.replaceOwners(body)
	return w.target.do(ctx, http.MethodPut, item+w.parameters(url.Values{}), body, &json.RawMessage{})
}

// delete deletes an object, unless it has been recreated with another UID.
func (w *planWriter) delete(ctx context.Context, item string, now map[string]any) error {
	object := unstructured.Unstructured{Object: now}
	uid := object.GetUID()
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}
	if w.dryRun != "" {
		options.DryRun = []string{metav1.DryRunAll} // servers ignore the query of a request with options
	}
	err := w.target.do(ctx, http.MethodDelete, item, &options, &json.RawMessage{})
	if isStatus(err, http.StatusNotFound) {
		return nil // deleted with its owner
	}
	return err
}

// writable returns the body of a write, which is a copy of state without the fields that the server sets. live
// is the current object, or nil.
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
	// writeTimeout is the maximum time to wait until a deletion is complete, and until a definition is
	// established.
	writeTimeout = 30 * time.Second
	writePoll    = 200 * time.Millisecond
)

// retry repeats a creation until it succeeds or fails for a reason other than the deletion of the object or its
// namespace. It gives up after writeTimeout.
func (w *planWriter) retry(ctx context.Context, create func() error) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	for {
		err := create()
		var failed *apiError
		if err == nil || !errors.As(err, &failed) || !failed.isTemporary() {
			return err
		}
		select {
		case <-time.After(writePoll):
		case <-ctx.Done():
			return err
		}
	}
}

// awaitEstablished waits until a definition is established.
func (w *planWriter) awaitEstablished(ctx context.Context, item string) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	for {
		var definition struct {
			Status struct{ Conditions []metav1.Condition }
		}
		if err := w.target.do(ctx, http.MethodGet, item, nil, &definition); err != nil {
			return err
		}
		for _, c := range definition.Status.Conditions {
			if c.Type == "Established" && c.Status == metav1.ConditionTrue {
				return nil
			}
		}
		select {
		case <-time.After(writePoll):
		case <-ctx.Done():
			return errors.New("the definition is not established")
		}
	}
}
