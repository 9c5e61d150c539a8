package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// CleanUp deletes the cluster-scoped objects that a scenario has left behind, because later lists in the
// recording do not contain them. Namespaces are not deleted; no other scenario uses their names.
func (r *Replayer) CleanUp(ctx context.Context, scenario Scenario) error {
	for _, step := range scenario.Steps {
		path, made := createdClusterScoped(step)
		if !made {
			continue
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodDelete, r.base+path+"?gracePeriodSeconds=0", nil)
		if err != nil {
			return err
		}
		resp, err := r.client.Do(req)
		if err != nil {
			return fmt.Errorf("delete %s after its scenario: %w", path, err)
		}
		resp.Body.Close()
	}
	return nil
}

// createdClusterScoped returns the path of the cluster-scoped object that the step created. made is false if
// the step created no such object.
func createdClusterScoped(step Step) (path string, made bool) {
	path, query, _ := strings.Cut(step.Request.Path, "?")
	if step.Response.Status != http.StatusCreated || strings.Contains(query, "dryRun") ||
		strings.Contains(path, "/namespaces/") || strings.HasSuffix(path, "/namespaces") {
		return "", false
	}
	var object struct {
		Metadata struct{ Name, Namespace, UID string }
	}
	if json.Unmarshal(step.Response.Body, &object) != nil || object.Metadata.UID == "" || object.Metadata.Namespace != "" {
		return "", false
	}
	if step.Request.Method == http.MethodPost {
		path += "/" + object.Metadata.Name
	}
	return path, true
}
