package provider_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/zoomies-fleet/zoomies/provider"
)

func TestClass(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		err, want error
	}{
		{"none", nil, nil},
		{"wrapped", fmt.Errorf("cannot delete 9104: %w", provider.ErrLocked), provider.ErrLocked},
		{"without a class", context.Canceled, provider.ErrUnknownOutcome},
		{"a lost answer beside an absence", errors.Join(provider.ErrNotFound, provider.ErrUnknownOutcome), provider.ErrUnknownOutcome},
		{"a refusal beside an absence", errors.Join(provider.ErrNotFound, provider.ErrDenied), provider.ErrDenied},
		{"never sent, and not found before", errors.Join(provider.ErrNotFound, provider.ErrTransient), provider.ErrTransient},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := provider.Class(tt.err); !errors.Is(got, tt.want) {
				t.Errorf("the class of %v is %v, want %v", tt.err, got, tt.want)
			}
		})
	}
}
