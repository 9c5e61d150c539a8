package resource

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/request"
)

// allowed is an authorizer that allows the listed requests, which have the form "verb subresource/name in
// namespace", and records all requests.
type allowed struct {
	yes   []string
	asked []string
	err   error
}

func (a *allowed) Authorize(_ context.Context, at *authorizer.Attributes) (authorizer.Decision, string, error) {
	asked := at.Verb + " " + at.Subresource + "/" + at.Name + " in " + at.Namespace
	a.asked = append(a.asked, asked)
	for _, yes := range a.yes {
		if yes == asked {
			return authorizer.DecisionAllow, "", a.err
		}
	}
	return authorizer.DecisionNoOpinion, "", a.err
}

// statusFaults returns the errors for an update of a claim's status by a user.
func statusFaults(t *testing.T, claim, old *resourcev1.ResourceClaim, authz authorizer.Authorizer, user *request.User) []string {
	t.Helper()
	info := &request.Info{
		IsResource: true, Verb: "update", Group: "resource.k8s.io", Version: "v1", Resource: "resourceclaims", Subresource: "status", Namespace: "ns", Name: "c",
	}
	ctx := request.NewContext(t.Context(), info, time.Time{})
	request.SetUser(ctx, user)
	op := &builtin.Operation{Context: ctx, Env: &builtin.Env{Auth: builtin.Auth{Authorizer: authz}}}
	var texts []string
	for _, fault := range validation.NewValidator(feature.Defaults()).Validate(ctx, func(f validation.Field) { validateClaimStatusAccess(op, f, claim, old) }) {
		texts = append(texts, fault.Error())
	}
	return texts
}

func onNode(node string) *resourcev1.AllocationResult {
	return &resourcev1.AllocationResult{NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchFields: []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
	}}}}
}

func reported(claim *resourcev1.ResourceClaim, drivers ...string) *resourcev1.ResourceClaim {
	claim = claim.DeepCopy()
	for _, driver := range drivers {
		claim.Status.Devices = append(claim.Status.Devices, resourcev1.AllocatedDeviceStatus{Driver: driver, Pool: "p", Device: "x"})
	}
	return claim
}

func TestPermitStatus(t *testing.T) {
	t.Parallel()
	none, bound := &resourcev1.ResourceClaim{}, &resourcev1.ResourceClaim{}
	bound.Status.Allocation = onNode("n")
	plugin := &request.User{Name: "system:serviceaccount:drivers:plugin", Extra: map[string][]string{request.ExtraNodeName: {"n"}}}
	away := &request.User{Name: "system:serviceaccount:drivers:plugin", Extra: map[string][]string{request.ExtraNodeName: {"m"}}}
	const arbitrary, associated = "arbitrary-node:update driver/", "associated-node:update driver/"
	for name, test := range map[string]struct {
		claim, old *resourcev1.ResourceClaim
		user       *request.User
		authz      allowed
		asked      []string
		want       []string
	}{
		"nothing":      {claim: bound, old: bound},
		"binding":      {claim: bound, old: none, authz: allowed{yes: []string{"update binding/ in "}}, asked: []string{"update binding/ in "}},
		"not binding":  {claim: none, old: bound, asked: []string{"update binding/ in "}, want: []string{`status: Forbidden: changing status.allocation or status.reservedFor requires resource="resourceclaims/binding", verb="update" permission: resourceclaims.resource.k8s.io is forbidden: User "joe" cannot update resource "resourceclaims/binding" in API group "resource.k8s.io" at the cluster scope`}},
		"with errors":  {claim: bound, old: none, authz: allowed{yes: []string{"update binding/ in "}, err: errors.New("slow")}, asked: []string{"update binding/ in "}},
		"on its node":  {claim: reported(bound, "d"), old: bound, user: plugin, authz: allowed{yes: []string{associated + "d in ns"}}, asked: []string{associated + "d in ns"}},
		"anywhere":     {claim: reported(bound, "d"), old: bound, user: plugin, authz: allowed{yes: []string{arbitrary + "d in ns"}}, asked: []string{associated + "d in ns", arbitrary + "d in ns"}},
		"another node": {claim: reported(bound, "d"), old: bound, user: away, authz: allowed{yes: []string{arbitrary + "d in ns"}}, asked: []string{arbitrary + "d in ns"}},
		"another driver": {
			claim: reported(bound, "d", "e"), old: reported(bound, "e", "f"), authz: allowed{yes: []string{arbitrary + "d in ns"}}, asked: []string{arbitrary + "d in ns", arbitrary + "f in ns"},
			want: []string{`status.devices: Forbidden: changing status.devices requires resource="resourceclaims/driver", verb="[arbitrary-node:update]" permission: resourceclaims.resource.k8s.io "f" is forbidden: User "joe" cannot arbitrary-node:update resource "resourceclaims/driver" in API group "resource.k8s.io" in the namespace "ns"`},
		},
	} {
		user := test.user
		if user == nil {
			user = &request.User{Name: "joe"}
		}
		if diff := cmp.Diff(test.want, statusFaults(t, test.claim, test.old, &test.authz, user)); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
		if diff := cmp.Diff(test.asked, test.authz.asked); diff != "" {
			t.Errorf("%s: authorization requests:\n%s", name, diff)
		}
	}
}

func TestSliceUpdate(t *testing.T) {
	t.Parallel()
	op := &builtin.Operation{Context: t.Context()}
	old := slice()
	old.Generation = 3
	same := old.DeepCopy()
	countSliceUpdate(op, same, old)
	changed := old.DeepCopy()
	changed.Spec.Devices[0].Attributes["l"] = resourcev1.DeviceAttribute{IntValues: []int64{1}}
	countSliceUpdate(op, changed, old)
	if same.Generation != 3 || changed.Generation != 4 {
		t.Errorf("generations %d and %d", same.Generation, changed.Generation)
	}
	old.Spec.Driver = "D.example.com"
	if got := sliceWarnings(op, old, nil); len(got) != 1 || !strings.Contains(got[0], `"D.example.com" contains uppercase characters`) {
		t.Errorf("warnings %q", got)
	}
}
