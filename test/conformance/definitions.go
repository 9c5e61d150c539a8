package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const definitionsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// changesDefinitions reports whether a step may have changed a CustomResourceDefinition. The server reacts to
// such a change asynchronously.
func changesDefinitions(step Step) bool {
	return step.Request.Method != http.MethodGet && strings.HasPrefix(step.Request.Path, definitionsPath) &&
		!strings.Contains(step.Request.Path, "dryRun")
}

// AwaitDefinitions waits until the server has processed all CustomResourceDefinitions: it has accepted or
// rejected their names, removed deleted definitions, and created an APIService for each served version. The
// recorder waited for the same conditions.
func (r *Replayer) AwaitDefinitions(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	for {
		crds, err := r.definitions(ctx)
		if err != nil {
			return fmt.Errorf("wait for definitions to be established: %w", err)
		}
		rest := !slices.ContainsFunc(crds, func(crd apiextensionsv1.CustomResourceDefinition) bool { return !atRest(crd, crds) })
		if rest {
			if rest, err = r.areRegistered(ctx, crds); err != nil {
				return fmt.Errorf("wait for definitions to be registered: %w", err)
			}
		}
		if rest {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for definitions to be established: %w", ctx.Err())
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func (r *Replayer) definitions(ctx context.Context) ([]apiextensionsv1.CustomResourceDefinition, error) {
	var list apiextensionsv1.CustomResourceDefinitionList
	if err := r.read(ctx, definitionsPath, &list); err != nil {
		return nil, fmt.Errorf("read the definitions: %w", err)
	}
	return list.Items, nil
}

// areRegistered reports whether an APIService exists for each version that an established definition serves.
func (r *Replayer) areRegistered(ctx context.Context, crds []apiextensionsv1.CustomResourceDefinition) (bool, error) {
	var services metav1.PartialObjectMetadataList
	if err := r.read(ctx, "/apis/apiregistration.k8s.io/v1/apiservices", &services); err != nil {
		return false, fmt.Errorf("read the registrations: %w", err)
	}
	registered := map[string]bool{}
	for i := range services.Items {
		registered[services.Items[i].Name] = true
	}
	for i := range crds {
		for _, version := range crds[i].Spec.Versions {
			established := holds(crds[i], apiextensionsv1.Established, apiextensionsv1.ConditionTrue)
			if established && version.Served && !registered[version.Name+"."+crds[i].Spec.Group] {
				return false, nil
			}
		}
	}
	return true, nil
}

// read sends a GET of path and decodes the response into the value into.
func (r *Replayer) read(ctx context.Context, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.base+path, nil)
	if err != nil {
		return err
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return json.NewDecoder(resp.Body).Decode(into)
}

// atRest reports whether a definition is in its final state. A rejection of names is final only as long as the
// group has another definition, which can own these names.
func atRest(crd apiextensionsv1.CustomResourceDefinition, all []apiextensionsv1.CustomResourceDefinition) bool {
	if crd.DeletionTimestamp != nil {
		return false
	}
	if reflect.DeepEqual(crd.Status.AcceptedNames, crd.Spec.Names) {
		return holds(crd, apiextensionsv1.NamesAccepted, apiextensionsv1.ConditionTrue) &&
			holds(crd, apiextensionsv1.Established, apiextensionsv1.ConditionTrue)
	}
	return holds(crd, apiextensionsv1.NamesAccepted, apiextensionsv1.ConditionFalse) &&
		slices.ContainsFunc(all, func(other apiextensionsv1.CustomResourceDefinition) bool {
			return other.Spec.Group == crd.Spec.Group && other.Name != crd.Name
		})
}

func holds(crd apiextensionsv1.CustomResourceDefinition, condition apiextensionsv1.CustomResourceDefinitionConditionType, status apiextensionsv1.ConditionStatus) bool {
	return slices.ContainsFunc(crd.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == condition && c.Status == status
	})
}

// learnRevision prepares a PUT of a definition whose recorded resourceVersion no earlier response contained, by
// reading the live definition. The recorder had polled the definition outside of the scenario until it was
// established.
func (r *Replayer) learnRevision(ctx context.Context, step Step, body []byte, memory *Memory) error {
	if step.Request.Method != http.MethodPut || !strings.HasPrefix(step.Request.Path, definitionsPath) {
		return nil
	}
	var recorded apiextensionsv1.CustomResourceDefinition
	if json.Unmarshal(body, &recorded) != nil || recorded.ResourceVersion == "" || memory.KnowsRevision(recorded.ResourceVersion) {
		return nil
	}
	crds, err := r.definitions(ctx)
	if err != nil {
		return fmt.Errorf("ask for the revision of a definition: %w", err)
	}
	for _, crd := range crds {
		if crd.Name == recorded.Name {
			memory.ReplaceRevision(recorded.ResourceVersion, crd.ResourceVersion)
		}
	}
	return nil
}
