// The map cell under the mouse. It changes sixty times a second, so components that follow it draw without rendering.

export interface Cell {
  row: number; // index of a group in view
  column: number | null;
}

export class Pointer {
  cell: Cell | null = null;
  private readonly followers = new Set<(cell: Cell | null) => void>();
  private waiting = false;

  move(cell: Cell | null): void {
    this.cell = cell;
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      for (const follow of this.followers) follow(this.cell);
    });
  }

  follow(follower: (cell: Cell | null) => void): () => void {
    this.followers.add(follower);
    return () => void this.followers.delete(follower);
  }
}
