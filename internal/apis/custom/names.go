package custom

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/btree"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/custom/definition"
)

// taken are the names that other definitions of a group have been given.
type taken struct {
	claims *btree.BTreeG[claim]
	group  string
	beside string
}

// takenBeside returns the names given to others of a group than the definition
// of a name.
func (s *snapshot) takenBeside(group, name string) taken { return taken{s.claims, group, name} }

func (t taken) resource(name string) bool { return t.has(claim{group: t.group, name: name}) }

func (t taken) kind(name string) bool { return t.has(claim{group: t.group, ofKind: true, name: name}) }

func (t taken) has(wanted claim) (found bool) {
	t.claims.Ascend(wanted, func(c claim) bool {
		same := c.group == wanted.group && c.ofKind == wanted.ofKind && c.name == wanted.name
		found = same && c.owner != t.beside
		return same && !found
	})
	return found
}

// conflict is why a name was not given.
type conflict struct{ reason, message string }

// give returns the names of a definition: the requested ones if they are free, otherwise the
// previous ones. why is nil if all are free.
func (t taken) give(wanted, had names) (given names, why *conflict) {
	given = had
	check := func(used func(string) bool, reason string, want []string) bool {
		for _, name := range want {
			if used(name) {
				why = &conflict{reason, fmt.Sprintf("%q is already in use", name)}
				return false
			}
		}
		return true
	}
	if check(t.resource, "PluralConflict", []string{wanted.plural}) {
		given.plural = wanted.plural
	}
	if check(t.resource, "SingularConflict", []string{wanted.singular}) {
		given.singular = wanted.singular
	}
	if check(t.resource, "ShortNamesConflict", wanted.shortNames) {
		given.shortNames = wanted.shortNames
	}
	if check(t.kind, "KindConflict", []string{wanted.kind}) {
		given.kind = wanted.kind
	}
	if check(t.kind, "ListKindConflict", []string{wanted.listKind}) {
		given.listKind = wanted.listKind
	}
	given.categories = wanted.categories
	return given, why
}

// promise assigns the names of a new definition before the loop processes it, if all are free.
// Otherwise the loop decides.
func (s *snapshot) promise(e *entry) {
	if e.established || e.terminating || e.unsafe || e.decided != nil {
		return
	}
	if given, why := s.takenBeside(e.group, e.name).give(e.requested, e.accepted); why == nil {
		e.decided = &decision{names: given, namesAccepted: true, established: true}
	}
}

// updateConditions updates the conditions of a definition from its names, group and schemas. It
// reports whether any changed.
func (l *loop) updateConditions(crd *apiextensionsv1.CustomResourceDefinition, s structure) bool {
	now := l.now()
	changed := approvalCondition(crd, now)
	changed = s.apply(crd, now) || changed
	had := namesOf(&crd.Status.AcceptedNames)
	given, why := l.current.Load().takenBeside(crd.Spec.Group, crd.Name).give(namesOf(&crd.Spec.Names), had)
	if !given.equal(had) {
		crd.Status.AcceptedNames, changed = given.api(), true
	}
	accepted := apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionTrue, Reason: "NoConflicts", Message: "no conflicts found",
	}
	established := apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue, Reason: "InitialNamesAccepted",
		Message: "the initial names have been accepted",
	}
	if why != nil {
		accepted.Status, accepted.Reason, accepted.Message = apiextensionsv1.ConditionFalse, why.reason, why.message
		established.Status, established.Reason, established.Message = apiextensionsv1.ConditionFalse, "NotAccepted", "not all names are accepted"
	} else if definition.InvalidCABundle(crd) {
		established.Status, established.Reason, established.Message = apiextensionsv1.ConditionFalse, "InvalidCABundle", "The conversion webhook CABundle is invalid"
	}
	changed = definition.SetCondition(crd, accepted, now) || changed
	if !definition.IsTrue(crd, apiextensionsv1.Established) { // once is for ever
		changed = definition.SetCondition(crd, established, now) || changed
	}
	return changed
}

// approvalCondition returns the approval condition of a definition in a group of the community.
func approvalCondition(crd *apiextensionsv1.CustomResourceDefinition, now time.Time) bool {
	if !definition.IsProtected(crd.Spec.Group) {
		return definition.RemoveCondition(crd, apiextensionsv1.KubernetesAPIApprovalPolicyConformant)
	}
	condition := apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.KubernetesAPIApprovalPolicyConformant, Status: apiextensionsv1.ConditionFalse,
	}
	state, words := definition.ApprovalOf(crd.Annotations)
	condition.Message = words
	switch state {
	case definition.Approved:
		condition.Status, condition.Reason = apiextensionsv1.ConditionTrue, "ApprovedAnnotation"
	case definition.ApprovalBypassed:
		condition.Reason = "UnapprovedAnnotation"
	case definition.ApprovalInvalid:
		condition.Reason = "InvalidAnnotation"
	case definition.ApprovalMissing:
		condition.Reason = "MissingAnnotation"
	}
	return definition.SetCondition(crd, condition, now)
}

// approvalOpen reports whether the condition of approval is to be written. The
// definition is only looked at.
func approvalOpen(crd *apiextensionsv1.CustomResourceDefinition) bool {
	trial := apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Annotations: crd.Annotations}}
	trial.Spec.Group, trial.Status.Conditions = crd.Spec.Group, slices.Clone(crd.Status.Conditions)
	return approvalCondition(&trial, time.Time{})
}

// statusManager is under which name the server's own writes of a status are
// accounted for.
const statusManager = "kube-apiserver"

// recordStatus notes that the server wrote conditions and accepted names, which
// were otherwise before.
func recordStatus(crd *apiextensionsv1.CustomResourceDefinition, was *apiextensionsv1.CustomResourceDefinitionStatus, at time.Time) {
	now := metav1.NewTime(at.Truncate(time.Second))
	entry := metav1.ManagedFieldsEntry{
		Manager: statusManager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: apiextensionsv1.SchemeGroupVersion.String(),
		Time: &now, FieldsType: "FieldsV1", Subresource: "status",
	}
	fields, others := splitManagedFields(crd.ManagedFields, func(m *metav1.ManagedFieldsEntry) bool {
		return m.Manager == entry.Manager && m.Operation == entry.Operation && m.Subresource == entry.Subresource
	}, was, &crd.Status)
	entry.FieldsV1 = fields
	crd.ManagedFields = append(others, entry)
	// The order of managed fields: applies first, then by time.
	slices.SortStableFunc(crd.ManagedFields, func(a, b metav1.ManagedFieldsEntry) int {
		return cmp.Or(strings.Compare(string(a.Operation), string(b.Operation)), writtenAt(a).Compare(writtenAt(b)), strings.Compare(a.Manager, b.Manager))
	})
}

func writtenAt(entry metav1.ManagedFieldsEntry) time.Time {
	if entry.Time == nil {
		return time.Time{}
	}
	return entry.Time.Time
}
