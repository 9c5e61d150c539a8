package endpoints

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/request"
)

// explainParameter is the query parameter that requests an admission explanation for a dry run,
// with the value "admission". It is an extension of this server; kube-apiserver ignores it.
const explainParameter = "explain"

// AdmissionExplanation is the response to a dry run with explain=admission.
type AdmissionExplanation struct {
	metav1.TypeMeta `json:",inline"`
	// Code is the status code of the dry run. The body of the response is in Object if the dry run
	// succeeded, and otherwise in Status.
	Code   int             `json:"code"`
	Object json.RawMessage `json:"object,omitempty"`
	Status json.RawMessage `json:"status,omitempty"`
	// Plugins contains the calls to plugins, in order. If a plugin rejected the request, its call is the
	// last one.
	Plugins []admission.Step `json:"plugins"`
}

// requestsExplanation reports whether the query of a request contains explain=admission.
func requestsExplanation(r *http.Request) bool {
	return strings.Contains(r.URL.RawQuery, explainParameter+"=") && r.URL.Query().Get(explainParameter) == "admission"
}

// explain handles a request for an admission explanation, which must be a dry run.
func (c *call) explain() error {
	switch c.info.Verb {
	case "create", "update", "patch", "delete":
	default:
		return apierrors.NewBadRequest("explain=admission is for create, update, patch and delete")
	}
	if !slices.Equal(c.r.URL.Query()["dryRun"], []string{metav1.DryRunAll}) {
		return apierrors.NewBadRequest("explain=admission needs dryRun=All")
	}
	c.explanation = &admission.Explanation{}
	if ctx := c.r.Context(); request.AuditFrom(ctx) == nil {
		request.SetAudit(ctx, &request.Audit{}) // audit annotations of plugins are part of the explanation
	}
	dryRun, response := *c, &bufferedResponse{header: http.Header{}, code: http.StatusOK}
	defer dryRun.reserved.Release() // Serve releases only the reservation of c
	dryRun.w, dryRun.r = response, c.r.WithContext(c.r.Context())
	dryRun.r.Header = c.r.Header.Clone()
	dryRun.r.Header.Set("Accept", "application/json")
	dryRun.r.Header.Del("Accept-Encoding")
	if err := dryRun.serve(); err != nil {
		c.api.WriteError(response, dryRun.r, err)
	}
	e := AdmissionExplanation{Code: response.code, Plugins: c.explanation.Steps}
	if !c.mayExplain() {
		e.Plugins = c.explanation.Public()
	}
	e.APIVersion, e.Kind = "mainstay.dev/v1", "AdmissionExplanation"
	if response.code < http.StatusBadRequest {
		e.Object = response.body.Bytes()
	} else {
		e.Status = response.body.Bytes()
	}
	body, err := json.Marshal(e)
	if err != nil {
		return err
	}
	c.w.Header().Set("Content-Type", "application/json")
	_, _ = c.w.Write(body) // the client may have disconnected
	return nil
}

// mayExplain reports whether the user may see everything that plugins did. This includes audit annotations,
// and expressions and parameters that the user might not be able to read otherwise.
func (c *call) mayExplain() bool {
	if c.authorizer == nil {
		return true
	}
	decision, _, _ := c.authorizer.Authorize(c.r.Context(), &authorizer.Attributes{ // on an error, the decision is not DecisionAllow
		User: request.UserFrom(c.r.Context()), ResourceRequest: true,
		Verb: "get", APIGroup: authorizer.Group, APIVersion: "v1", Resource: "admissionexplanations",
	})
	return decision == authorizer.DecisionAllow
}

// bufferedResponse is a ResponseWriter that keeps the response in memory.
type bufferedResponse struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (b *bufferedResponse) Header() http.Header { return b.header }

// Write implements http.ResponseWriter.
func (b *bufferedResponse) Write(p []byte) (int, error) { return b.body.Write(p) }

// WriteHeader implements http.ResponseWriter.
func (b *bufferedResponse) WriteHeader(code int) { b.code = code }
