package protocol

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
)

func TestHeldTasksTravel(t *testing.T) {
	t.Parallel()
	many := make([]string, MaxHeld+1)
	for i := range many {
		many[i] = fmt.Sprint("tsk_", i)
	}
	for name, tt := range map[string]struct {
		ctx  context.Context
		want []string
		said bool
	}{
		"an agent that has not said": {t.Context(), nil, false},
		"none":                       {WithHeld(t.Context(), nil), nil, true},
		"one":                        {WithHeld(t.Context(), []string{"tsk_1"}), []string{"tsk_1"}, true},
		"as many as may be":          {WithHeld(t.Context(), many[:MaxHeld]), many[:MaxHeld], true},
		"too many to say":            {WithHeld(t.Context(), many), nil, false},
	} {
		r := httptest.NewRequest(http.MethodGet, PathTasks, nil)
		SetHeld(tt.ctx, r.Header)
		got, said := HeldOf(withHeldOf(r))
		if !slices.Equal(got, tt.want) || said != tt.said {
			t.Errorf("%s: arrived as %v, %v", name, got, said)
		}
	}
}
