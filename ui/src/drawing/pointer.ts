// What is under the mouse. It changes sixty times a second, so components that follow it draw without rendering.

export interface Cell {
  row: number | null; // index of a group in view
  column: number | null;
}

export class Pointer {
  cell: Cell | null = null;
  at = { x: 0, y: 0 }; // of the mouse, in the window
  private readonly followers = new Set<(cell: Cell | null) => void>();
  private waiting = false;

  move(cell: Cell | null, event?: MouseEvent): void {
    this.cell = cell;
    if (event) this.at = { x: event.clientX, y: event.clientY };
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
