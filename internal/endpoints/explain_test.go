package endpoints_test

import (
	"strings"
	"testing"

	"mainstay.dev/mainstay/internal/endpoints"
	"mainstay.dev/mainstay/internal/limits/memory"
)

// TestExplainReleasesMemory checks that a dry run with an explanation releases the memory that it reserved
// for the request body.
func TestExplainReleasesMemory(t *testing.T) {
	t.Parallel()
	budget, err := memory.NewBudget(64<<20, nil)
	if err != nil {
		t.Fatal(err)
	}
	a := newAPI(t, endpoints.Config{Memory: budget})
	body := `{"metadata":{"name":"a"},"data":{"a":"` + strings.Repeat("x", 100<<10) + `"}}`
	a.must("POST /api/v1/namespaces/default/configmaps?dryRun=All&explain=admission", body)
	all := budget.NewReservation()
	defer all.Release()
	if err := all.ReserveBody(t.Context(), 4<<20); err != nil {
		t.Errorf("the budget after the request: %v", err)
	}
}
