package certificates

import (
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/simulation"
)

// prepareRequest copies the user who sends the request to the spec. Approvers rely on these fields.
func prepareRequest(op *builtin.Operation, csr *certificatesv1.CertificateSigningRequest) {
	csr.Spec.Username, csr.Spec.UID, csr.Spec.Groups, csr.Spec.Extra = "", "", nil, nil
	user := request.UserFrom(op.Context)
	if user == nil {
		return
	}
	csr.Spec.Username, csr.Spec.UID, csr.Spec.Groups = user.Name, user.UID, user.Groups
	if len(user.Extra) > 0 {
		csr.Spec.Extra = make(map[string]certificatesv1.ExtraValue, len(user.Extra))
		for key, values := range user.Extra {
			csr.Spec.Extra[key] = values
		}
	}
}

// prepareRequestUpdate preserves the spec, because only the metadata can be updated.
func prepareRequestUpdate(_ *builtin.Operation, csr, old *certificatesv1.CertificateSigningRequest) {
	csr.Spec = old.Spec
}

// prepareRequestStatus preserves conditions that were set by approvers. If the client adds or removes such a
// condition, validation rejects the request.
func prepareRequestStatus(op *builtin.Operation, csr, old *certificatesv1.CertificateSigningRequest) {
	keepConditions(csr, old, certificatesv1.CertificateApproved)
	keepConditions(csr, old, certificatesv1.CertificateDenied)
	stampConditions(csr, old, metav1.NewTime(simulation.Now(op.Context)))
}

// prepareApproval preserves everything except conditions and metadata.
func prepareApproval(op *builtin.Operation, csr, old *certificatesv1.CertificateSigningRequest) {
	stampConditions(csr, old, metav1.NewTime(simulation.Now(op.Context)))
	conditions := csr.Status.Conditions
	csr.Spec, csr.Status = old.Spec, old.Status
	csr.Status.Conditions = conditions
}

func keepConditions(csr, old *certificatesv1.CertificateSigningRequest, kind certificatesv1.RequestConditionType) {
	to, from := conditionsOf(csr, kind), conditionsOf(old, kind)
	if len(to) != len(from) {
		return
	}
	for i := range to {
		*to[i] = *from[i]
	}
}

func conditionsOf(csr *certificatesv1.CertificateSigningRequest, kind certificatesv1.RequestConditionType) []*certificatesv1.CertificateSigningRequestCondition {
	var found []*certificatesv1.CertificateSigningRequestCondition
	for i := range csr.Status.Conditions {
		if csr.Status.Conditions[i].Type == kind {
			found = append(found, &csr.Status.Conditions[i])
		}
	}
	return found
}

// stampConditions sets the times of conditions that have none.
func stampConditions(csr, old *certificatesv1.CertificateSigningRequest, now metav1.Time) {
	for i := range csr.Status.Conditions {
		c := &csr.Status.Conditions[i]
		if c.LastUpdateTime.IsZero() {
			c.LastUpdateTime = now
		}
		if !c.LastTransitionTime.IsZero() {
			continue
		}
		c.LastTransitionTime = now
		same := slices.IndexFunc(old.Status.Conditions, func(was certificatesv1.CertificateSigningRequestCondition) bool {
			return was.Type == c.Type && was.Status == c.Status && !was.LastTransitionTime.IsZero()
		})
		if same >= 0 {
			c.LastTransitionTime = old.Status.Conditions[same].LastTransitionTime
		}
	}
}

// approval declares the /approval subresource, with which approvers approve or deny a request.
func approval() builtin.Subresource {
	return builtin.NewObjectSubresource(builtin.ObjectSubresource[*certificatesv1.CertificateSigningRequest]{
		Name: "approval", ResetFields: []string{"spec", "status.certificate"},
		PrepareForUpdate: prepareApproval, Validate: validateApproval,
	})
}

// signerNameDoc is the description of the field spec.signerName in v1beta1.
const signerNameDoc = "Requested signer for the request. It is a qualified name in the form: `scope-hostname.io/name`. If empty, it will be defaulted:\n" +
	" 1. If it's a kubelet client certificate, it is assigned\n    \"kubernetes.io/kube-apiserver-client-kubelet\".\n" +
	" 2. If it's a kubelet serving certificate, it is assigned\n    \"kubernetes.io/kubelet-serving\".\n" +
	" 3. Otherwise, it is assigned \"kubernetes.io/legacy-unknown\".\n" +
	"Distribution of trust for signers happens out of band. You can select on this field using `spec.signerName`."

func requestColumns() *builtin.Columns[*certificatesv1.CertificateSigningRequest] {
	// As in kube-apiserver, the descriptions are those of v1beta1. They are copied, because importing that
	// package would increase the size of the binary. The description of expirationSeconds is the same in v1.
	durationDoc := certificatesv1.CertificateSigningRequestSpec{}.SwaggerDoc()["expirationSeconds"]
	return &builtin.Columns[*certificatesv1.CertificateSigningRequest]{
		Definitions: []metav1.TableColumnDefinition{
			builtin.NameColumn(),
			builtin.AgeColumn(),
			builtin.Column("SignerName", "string", signerNameDoc),
			builtin.Column("Requestor", "string", "Base64-encoded PKCS#10 CSR data"),
			builtin.Column("RequestedDuration", "string", durationDoc),
			builtin.Column("Condition", "string", "Conditions applied to the request, such as approval or denial."),
		},
		Cells: func(csr *certificatesv1.CertificateSigningRequest, now time.Time) []any {
			asked := builtin.None
			if csr.Spec.ExpirationSeconds != nil {
				asked = duration.HumanDuration(time.Duration(*csr.Spec.ExpirationSeconds) * time.Second)
			}
			return []any{
				csr.Name, builtin.Age(csr.CreationTimestamp, now), builtin.OrNone(csr.Spec.SignerName), csr.Spec.Username,
				asked, requestState(csr),
			}
		},
	}
}

func requestState(csr *certificatesv1.CertificateSigningRequest) string {
	var state []string
	switch {
	case len(conditionsOf(csr, certificatesv1.CertificateDenied)) > 0:
		state = append(state, "Denied")
	case len(conditionsOf(csr, certificatesv1.CertificateApproved)) > 0:
		state = append(state, "Approved")
	default:
		state = append(state, "Pending")
	}
	if len(conditionsOf(csr, certificatesv1.CertificateFailed)) > 0 {
		state = append(state, "Failed")
	}
	if len(csr.Status.Certificate) > 0 {
		state = append(state, "Issued")
	}
	return strings.Join(state, ",")
}
